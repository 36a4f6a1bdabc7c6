import type { Release } from './release.ts';
import { execaSync } from 'execa';
import { join } from 'node:path';
import { ReleaseError } from './error.ts';

/** The images of a release. */
export const images = ['vipnat', 'keepalived'] as const;

/** One of images. */
export type Image = (typeof images)[number];

/** The name of an image in two parts: its registry and path, and its tag. */
export interface ImageName {
  readonly repository: string;
  readonly tag: string;
}

/**
 * The name that scripts/image gives an image, and that `vipnat manifest` prints.
 * @throws ReleaseError when RELEASE_IMAGE is no such name.
 */
export function readImageName({ root }: Pick<Release, 'root'>, image: Image): ImageName {
  const { exitCode, stdout, stderr } = execaSync(join(root, 'scripts/image-name'), [image], {
    reject: false,
  });
  if (exitCode !== 0) throw new ReleaseError(stderr.replace(/^image: /, ''));
  const colon = stdout.lastIndexOf(':');
  return { repository: stdout.slice(0, colon), tag: stdout.slice(colon + 1) };
}
