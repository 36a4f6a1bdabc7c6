import { describe, test } from '@jest/globals';
import { vipnatCommand } from '../../support/host/vipnat.ts';
import { proveWalk } from '../../support/chaos/engine/prove-walk.ts';
import { found } from './found.ts';
import { standIn, standInLimits as limits } from '../../support/chaos/stand-in/world.ts';

const limitMs = 600_000;

describe('a committed walk', () => {
  test.each(found)(
    '$name',
    ({ name, walk }) =>
      proveWalk({ kind: standIn(vipnatCommand([])), walk, title: name, limits, shrinkMs: 0 }),
    limitMs,
  );
});
