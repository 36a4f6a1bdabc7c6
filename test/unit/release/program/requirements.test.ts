import { describe, test, expect } from '@jest/globals';
import { requirePrograms } from '../../../../tools/release/program/requirements.ts';
import { steps } from '../../../../tools/release/program/steps.ts';

const all = [
  { name: 'npm' },
  { name: 'packages', needs: ['go'] },
  { name: 'images', needs: ['buildah'] },
] as const;

describe('what a release needs of this machine', () => {
  test('is said before the first step, all at once, with the way to each and the steps that go without', () => {
    const nothing = () => false;
    expect(() => {
      requirePrograms(all, nothing);
    }).toThrow(
      [
        'go is not in PATH. These steps need it: packages. To install it: https://go.dev/dl, or apt-get install golang',
        'buildah is not in PATH. These steps need it: images. To install it: apt-get install buildah',
        'The other steps: scripts/release npm',
      ].join('\n'),
    );
    expect(() => {
      requirePrograms([all[2]], nothing);
    }).toThrow(/^buildah is not in PATH\. .* need it: images\. To install it: apt-get install buildah$/);
  });

  test('is no matter of steps that nobody asked for, nor of programs that are there', () => {
    requirePrograms([all[0]], () => false);
    requirePrograms(all, () => true);
  });

  test('is buildah for the images, and Go for what nfpm packs', () => {
    const needing = (program: string) =>
      steps.filter(({ needs = [] }) => needs.some((one) => one === program));
    expect(needing('buildah').map(({ name }) => name)).toEqual(['images']);
    expect(needing('go').map(({ name }) => name)).toEqual(['packages']);
  });
});
