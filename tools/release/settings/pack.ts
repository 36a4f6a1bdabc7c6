import type { Release } from './release.ts';
import { execa } from 'execa';

/**
 * Packs names of a folder, each with all that is below it, as a tar: in the order of their names, root's, of the release's time,
 * with modes that no umask has changed. Answers its bytes.
 */
export async function packTar(
  { epoch }: Pick<Release, 'epoch'>,
  folder: string,
  names: readonly string[],
): Promise<Buffer> {
  const same = ['--sort=name', `--mtime=@${epoch}`, '--owner=0', '--group=0', '--numeric-owner'];
  const words = [
    '--create',
    '--format=ustar',
    ...same,
    '--mode=u=rwX,go=rX',
    '--directory',
    folder,
    ...names,
  ];
  const options = { encoding: 'buffer', maxBuffer: 2 ** 31 } as const;
  const { stdout } = await execa('tar', words, { ...options, env: { LC_ALL: 'C' } });
  return Buffer.from(stdout);
}
