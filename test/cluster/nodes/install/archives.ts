import { join } from 'node:path';
import { writeInstallYaml } from '../../../../release/cluster/install-yaml.ts';
import { writeArchive } from '../../../../release/images/images.ts';
import { readRelease } from '../../../../release/settings/release.ts';
import { buildImage, buildKeepalivedImage, prepareBases } from '../../../support/image/build.ts';
import { TemporaryFolder } from '../../../support/network/at-end.ts';

/** The files of a release for nodes with containerd alone, by their names there. */
export interface NodeFiles {
  readonly nameToFile: Readonly<Record<string, string>>;
  /** vipnat's image, as its archive names it. */
  readonly image: string;
  /** Removes the files. */
  remove(): void;
}

/** Writes the files of a release for nodes: both images, of the tests' own build, as OCI archives, and install.yaml. */
export async function writeNodeFiles(): Promise<NodeFiles> {
  const folder = new TemporaryFolder('release');
  const release = readRelease(folder.path, () => undefined);
  const { env } = await prepareBases();
  const { name: image } = await buildImage();
  const archives = {
    [`vipnat-image-${release.version}-linux-amd64.tar`]: image,
    [`vipnat-keepalived-image-${release.version}-linux-amd64.tar`]: await buildKeepalivedImage(),
  };
  for (const [name, whole] of Object.entries(archives)) {
    await writeArchive(release, whole, join(folder.path, name), env);
  }
  const names = [...Object.keys(archives), ...(await writeInstallYaml(release))];
  return {
    nameToFile: Object.fromEntries(names.map((name) => [name, join(folder.path, name)])),
    image,
    remove: () => {
      folder.remove();
    },
  };
}
