import { beforeAll, describe, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { makeFolder } from '../support/network/own-folder.ts';
import { dirname, join, resolve } from 'node:path';

/** Files to those that they import, or that they import types of. */
type Tree = Readonly<Record<string, readonly string[]>>;

/** Before the path of a file of which nothing but types is imported. */
const typesOf = 'types of ';

/** A small checkout of which every import is one that may be. */
const goodTree: Tree = {
  'lib/errors.ts': [],
  'lib/kernel/port.ts': ['lib/errors.ts'],
  'lib/kernel/kernel.ts': ['lib/kernel/port.ts'],
  'lib/watch.ts': ['lib/kernel/kernel.ts'],
  'config/options.ts': ['lib/errors.ts'],
  'devices/driver.ts': ['lib/errors.ts'],
  'devices/alteon/driver.ts': ['devices/driver.ts'],
  'devices/drivers.ts': ['devices/alteon/driver.ts'],
  'agent/health/judge.ts': ['lib/errors.ts'],
  'agent/health/monitor.ts': ['agent/backend.ts'],
  'agent/backend.ts': ['agent/health/judge.ts'],
  'agent/main.ts': ['agent/health/monitor.ts', 'config/options.ts', 'lib/watch.ts'],
  'balancer/main.ts': ['config/options.ts'],
  'controller/main.ts': ['config/options.ts', 'devices/drivers.ts'],
  'cli/main.ts': ['agent/main.ts', 'balancer/main.ts', 'controller/main.ts', 'lib/kernel/kernel.ts'],
  'tools/lab/machines/machine.ts': ['lib/errors.ts'],
  'tools/bench/soak/main.ts': ['tools/lab/machines/machine.ts', 'test/support/fakes/kernel.ts'],
  'test/support/fakes/kernel.ts': ['lib/kernel/port.ts'],
  'test/unit/cli/main.test.ts': ['cli/main.ts', 'tools/bench/soak/main.ts'],
  'test/random/model/world.ts': ['test/support/fakes/kernel.ts'],
  'test/random/model/world.test.ts': ['test/random/model/world.ts', 'test/support/fakes/kernel.ts'],
};

interface Verdict {
  readonly status: number | null;
  readonly text: string;
}

const folders = makeFolder('folders');

function lintFolders(tree: Tree): Verdict {
  const root = mkdtempSync(join(folders, 'tree-'));
  const own = ['scripts/lint', '.dependency-cruiser.json', 'tsconfig.json'];
  for (const file of own) cpSync(file, join(root, file));
  symlinkSync(resolve('node_modules'), join(root, 'node_modules'));
  for (const [file, imports] of Object.entries(tree)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), renderModule(file, imports));
  }
  const lint = spawnSync(join(root, 'scripts/lint'), ['folders'], { encoding: 'utf8' });
  return { status: lint.status, text: lint.stdout + lint.stderr };
}

function renderModule(file: string, imports: readonly string[]): string {
  const up = '../'.repeat(file.split('/').length - 1);
  const lines = imports.map((path) =>
    path.startsWith(typesOf)
      ? `import { type value } from '${up}${path.slice(typesOf.length)}';\n`
      : `import '${up}${path}';\n`,
  );
  return [...lines, 'export const value = 1;\n'].join('');
}

/** Imports that go the wrong way: from which file, of which other, and the fence that refuses them. */
const wrongImports = [
  ['lib/errors.ts', 'agent/report/log.ts', 'lib-imports-only-lib'],
  ['lib/errors.ts', 'config/load.ts', 'lib-imports-only-lib'],
  ['lib/errors.ts', 'devices/pair.ts', 'lib-imports-only-lib'],
  ['config/options.ts', 'agent/report/log.ts', 'config-imports-only-lib'],
  ['config/options.ts', 'devices/pair.ts', 'config-imports-only-lib'],
  ['devices/driver.ts', 'config/load.ts', 'devices-import-only-lib'],
  ['devices/alteon/driver.ts', 'controller/allocate/seats.ts', 'devices-import-only-lib'],
  ['devices/driver.ts', 'cli/output.ts', 'programs-never-import-cli'],
  ['agent/main.ts', 'cli/output.ts', 'programs-never-import-cli'],
  ['controller/main.ts', 'cli/output.ts', 'programs-never-import-cli'],
  ['agent/main.ts', 'controller/allocate/seats.ts', 'programs-never-import-each-other'],
  ['controller/main.ts', 'agent/report/log.ts', 'programs-never-import-each-other'],
  ['balancer/main.ts', 'agent/report/log.ts', 'programs-never-import-each-other'],
  ['cli/main.ts', 'test/support/fakes/clock.ts', 'product-never-imports-test'],
  ['agent/main.ts', 'tools/lab/settings/options.ts', 'product-never-imports-test'],
  ['test/unit/cli/main.test.ts', 'test/random/model/steps.ts', 'layers-never-import-each-other'],
  ['tools/bench/soak/main.ts', 'test/random/model/steps.ts', 'nobody-imports-a-layer'],
  ['test/support/fakes/kernel.ts', 'test/random/model/steps.ts', 'nobody-imports-a-layer'],
  ['tools/lab/machines/machine.ts', 'tools/bench/shared/record.ts', 'lab-imports-no-program'],
] as const;

/** Each of two folders needs a file of the other; no two files do. */
const folderCircle = (one: string, other: string): Tree => ({
  [`${one}/first.ts`]: [`${other}/second.ts`],
  [`${other}/first.ts`]: [`${one}/second.ts`],
  [`${other}/second.ts`]: [],
  [`${one}/second.ts`]: [],
});

/** Each of two files needs a type of the other. */
const typeCircle = (folder: string): Tree => ({
  [`${folder}/one.ts`]: [`${typesOf}${folder}/other.ts`],
  [`${folder}/other.ts`]: [`${typesOf}${folder}/one.ts`],
});

const circleInProduct: Tree = {
  ...folderCircle('agent/report', 'agent/decide'),
  'agent/health/judge.ts': ['agent/report/first.ts', 'agent/decide/first.ts'],
};

test.each<[string, Tree]>([
  ['a tree whose arrows go down', {}],
  ['folders of the product that import each other', circleInProduct],
])('scripts/lint folders passes %s', (_what, more) => {
  expect(lintFolders({ ...goodTree, ...more })).toMatchObject({ status: 0 });
});

describe('scripts/lint folders refuses', () => {
  let verdict: Verdict = { status: null, text: '' };
  beforeAll(() => {
    const tree: Record<string, readonly string[]> = {
      ...goodTree,
      ...folderCircle('tools/demo/stage', 'tools/demo/screen'),
      ...typeCircle('agent/health'),
      ...typeCircle('tools/lab/machines'),
      'tools/lab/machines/unused.ts': [],
      'agent/health/unused.ts': ['lib/errors.ts'],
    };
    for (const [from, to] of wrongImports) {
      tree[from] = [...(tree[from] ?? []), to];
      tree[to] ??= [];
    }
    verdict = lintFolders(tree);
  });

  test('all of them', () => {
    expect(verdict.status).not.toBe(0);
  });

  test.each(wrongImports)('%s that imports %s: %s', (from, to, fence) => {
    expect(verdict.text).toContain(`error ${fence}: ${from} → ${to}`);
  });

  const demo = 'tools/demo/stage → tools/demo/screen → tools/demo/stage';
  test.each([
    ['folders outside of the product that import each other', `no-folder-cycle: ${demo}`],
    ['files of the product that import types of each other', 'no-type-cycle: agent/health/one.ts'],
    ['a file without imports that nothing imports', 'no-orphan: tools/lab/machines/unused.ts'],
    ['a product file that only imports others', 'product-is-imported: agent/health/unused.ts'],
  ])('%s', (_what, complaint) => {
    expect(verdict.text.replaceAll(/\s+/g, ' ')).toContain(`error ${complaint}`);
  });

  test('no types that files outside of the product import of each other', () => {
    expect(verdict.text).not.toContain('cycle: tools/lab/machines/one.ts');
  });
});
