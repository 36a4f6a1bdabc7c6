import { describe, test } from '@jest/globals';
import { vipnatCommand } from '../netns/vipnat.ts';
import { proveWalk } from './engine/prove-walk.ts';
import { found } from './found.ts';
import { standIn, standInLimits as limits } from './stand-in/world.ts';

const limitMs = 600_000;

describe('a committed walk', () => {
  test.each(found)(
    '$name',
    ({ name, walk }) =>
      proveWalk({ kind: standIn(vipnatCommand([])), walk, title: name, limits, shrinkMs: 0 }),
    limitMs,
  );
});
