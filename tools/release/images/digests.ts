import { execaSync } from 'execa';

/** Whether a file of a release is an image's archive. */
export const isImageArchive = (file: string): boolean => /^vipnat(?:-[a-z]+)?-image-.*\.tar$/.test(file);

/** The digest of the image in an OCI archive: a registry that it is pushed to serves it by this digest. */
export function readArchiveDigest(archive: string): string {
  const words = ['--extract', '--to-stdout', '--file', archive, 'index.json'];
  const { manifests } = JSON.parse(execaSync('tar', words).stdout) as {
    readonly manifests: readonly { readonly digest: string }[];
  };
  const [image] = manifests;
  if (image === undefined) throw new TypeError(`${archive} has no image`);
  return image.digest;
}
