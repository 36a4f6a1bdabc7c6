import { productFolders, rootFolder } from '../../../tools/lab/settings/folders.ts';
import { type Mutation, mutations } from './mutations.ts';
import { TemporaryFolder } from '../../support/network/at-end.ts';
import { cpSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { changeSource } from '../../support/broken/source-change.ts';
import { execa } from 'execa';
import { chooseWalks } from '../../support/chaos/engine/choice.ts';
import { type Limits, type Failure, runWalk } from '../../support/chaos/engine/run-walk.ts';
import { standInLimits, standIn } from '../../support/chaos/stand-in/world.ts';
import { type Walk, quiet } from '../../support/chaos/engine/walk.ts';
import { test, expect, describe } from '@jest/globals';
import { vipnatCommand } from '../../support/host/vipnat.ts';
import { proveWalk } from '../../support/chaos/engine/prove-walk.ts';
import { drawWalk } from '../../support/chaos/engine/draw-walk.ts';

/** What scripts/build.mjs needs. */
const sources = [...productFolders, ...['scripts', 'package.json', 'package-lock.json', 'tsconfig.json']];

/** A vipnat with a mutation, built as scripts/build does it. */
interface BrokenVipnat {
  /** Its program with its interpreter. */
  readonly command: readonly string[];
  remove(): void;
}

/**
 * Builds one in a folder of its own.
 * @throws when the text to replace is not there exactly once: then the mutation is not one of this source.
 */
async function breakVipnat(mutation: Mutation): Promise<BrokenVipnat> {
  const temporary = new TemporaryFolder('broken');
  const { path: folder } = temporary;
  const remove = () => {
    temporary.remove();
  };
  try {
    for (const source of sources) cpSync(join(rootFolder, source), join(folder, source), { recursive: true });
    symlinkSync(join(rootFolder, 'node_modules'), join(folder, 'node_modules'));
    writeFileSync(join(folder, mutation.file), changeSource(mutation));
    await execa(process.execPath, ['scripts/build.mjs', join(folder, 'dist')], { cwd: folder });
  } catch (error) {
    remove();
    throw error;
  }
  return { command: [process.execPath, join(folder, 'dist/vipnat.js')], remove };
}

const { seeds, steps, isLong } = chooseWalks({ seeds: [], steps: 0 }, 1000);
const limitMs = 3_600_000;

/** Whoever is wrong is wrong for good, so it is not worth long patience. */
const hasty: Limits = { ...standInLimits, quietMs: 6000, judgements: 6 };

/** The short version has time for some. */
const shown = isLong ? mutations : mutations.slice(0, 3);

/** A walk over a vipnat with this mutation; answers what was wrong. */
async function walkBroken(index: number, walk: Walk, limits: Limits): Promise<Failure | null> {
  const mutation = mutations[index];
  if (mutation === undefined) throw new RangeError(`no mutation ${index}`);
  const broken = await breakVipnat(mutation);
  try {
    return await runWalk(await standIn(broken.command, { watchesState: true }).open(), walk, limits);
  } finally {
    broken.remove();
  }
}

function tell(index: number, how: string, { step, complaints }: Failure): void {
  const [first = ''] = complaints;
  process.stderr.write(
    `stand-in, "${mutations[index]?.name ?? ''}", ${how}: caught after step ${step}: ${first.split('\n', 1)[0] ?? ''}\n`,
  );
}

// Those that the short version leaves out would else be found missing a night later.
test.each(mutations)('there is a source to break for one that $name', (mutation) => {
  expect(changeSource(mutation)).toContain(mutation.to);
});

describe('a broken vipnat is caught', () => {
  test.each(shown.map(({ name }, index) => [name, index] as const))(
    'that %s, by its own walk',
    async (_name, index) => {
      const failure = await walkBroken(index, mutations[index]?.walk ?? [], hasty);
      if (failure === null) throw new Error('nothing was wrong');
      tell(index, 'its own walk', failure);
      expect(failure.complaints.join('\n')).toMatch(mutations[index]?.complaint ?? /nothing/);
    },
    limitMs,
  );

  test(
    'and the sound one passes these walks',
    async () => {
      const healing: Walk = ['m1', 'm2', 'm3'].map((name) => ({
        fault: 'apiserver',
        name,
        condition: 'well',
      }));
      const walk = shown.flatMap((mutation) => [...mutation.walk, quiet, ...healing, quiet]);
      const kind = standIn(vipnatCommand([]), { watchesState: true });
      await proveWalk({ kind, walk, title: 'the walks of these', limits: standInLimits, shrinkMs: 0 });
    },
    limitMs,
  );
});

// Not skipped but left out otherwise: by the walks that the sound one is proved by.
if (isLong) {
  describe('a broken vipnat is caught by every random walk', () => {
    test.each(seeds.flatMap((seed) => mutations.map(({ name }, index) => [seed, name, index] as const)))(
      'seed %i: that %s',
      async (seed, _name, index) => {
        const { faults } = standIn(vipnatCommand([]));
        const failure = await walkBroken(index, drawWalk(faults, seed, steps), standInLimits);
        expect(failure).not.toBeNull();
        if (failure !== null) tell(index, `seed ${seed}`, failure);
      },
      limitMs,
    );
  });
}
