import { describe, test, expect } from '@jest/globals';
import { dividePossible } from '../../../../tools/release/program/requirements.ts';
import { steps } from '../../../../tools/release/program/steps.ts';

const all = [
  { name: 'npm' },
  { name: 'packages', needs: ['go'] },
  { name: 'images', needs: ['buildah'] },
] as const;

describe('what a release needs of this machine', () => {
  test('is said before the first step, with the way to each program and the steps that go without', () => {
    const without = dividePossible(all, () => false);
    expect(without).toEqual({
      possible: [all[0]],
      left: [
        'go is not in PATH. These steps need it: packages. To install it: https://go.dev/dl, or apt-get install golang',
        'buildah is not in PATH. These steps need it: images. To install it: apt-get install buildah',
      ],
    });
    expect(dividePossible(all, () => true)).toEqual({ possible: all, left: [] });
  });

  test('is buildah for the images, and Go for what nfpm packs', () => {
    const needing = (program: string) =>
      steps.filter(({ needs = [] }) => needs.some((one) => one === program));
    expect(needing('buildah').map(({ name }) => name)).toEqual(['images']);
    expect(needing('go').map(({ name }) => name)).toEqual(['packages']);
  });
});
