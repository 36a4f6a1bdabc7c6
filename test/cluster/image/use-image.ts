import { beforeAll } from '@jest/globals';
import { buildImage, type BuiltImage } from '../../support/image/build.ts';

/** A base, packages from two registries and a build, when nothing is there yet. */
const buildLimitMs = 10 * 60_000;

/** The image, before the first test of a file. */
export function useImage(): () => BuiltImage {
  let image: BuiltImage | undefined;
  beforeAll(async () => {
    const started = performance.now();
    image = await buildImage();
    const seconds = ((performance.now() - started) / 1000).toFixed(0);
    process.stderr.write(`${image.report}, after ${seconds} s\n`);
  }, buildLimitMs);
  return () => {
    if (image === undefined) throw new Error('the image was not built');
    return image;
  };
}
