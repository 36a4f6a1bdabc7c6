import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { execa } from 'execa';
import { parts } from '../support/run/parts.ts';
import { makeFolderEach } from '../support/network/own-folder.ts';
import { linkPrograms } from './link-programs.ts';

/** What scripts/setup starts itself. */
const helpers = 'bash comm cut dirname find grep mktemp rm sort tail touch tr uname';

/** A checkout that has nothing but scripts/setup, and a PATH of its own. */
let checkout: string;
makeFolderEach('setup', async (path) => {
  checkout = path;
  for (const folder of ['scripts', 'path', 'node_modules/.bin'])
    mkdirSync(join(checkout, folder), { recursive: true });
  for (const file of ['setup', 'packages.txt'])
    copyFileSync(`scripts/${file}`, join(checkout, 'scripts', file));
  await linkPrograms(join(checkout, 'path'), helpers);
});

function writeProgram(file: string, body: string): void {
  writeFileSync(file, `#!/bin/sh\n${body}\n`);
  chmodSync(file, 0o755);
}

function provide(program: string, body = ''): void {
  writeProgram(join(checkout, 'path', program), body);
}

/** A system like Debian, whose apt-get says what it is asked for, and who asks. */
function provideDebian(user: number): void {
  provide('apt-get', 'echo "apt-get $*" >&2');
  provide('id', `echo ${user}`);
}

function provideNpmPackages(): void {
  writeProgram(join(checkout, 'node_modules/.bin/node'), 'echo v24.0.0');
  writeFileSync(join(checkout, 'package-lock.json'), '{}');
  writeFileSync(join(checkout, 'node_modules/.package-lock.json'), '{}');
}

const setUp = async (words: readonly string[], env: NodeJS.ProcessEnv = { PATH: join(checkout, 'path') }) => {
  const { exitCode, stderr } = await execa(join(checkout, 'scripts/setup'), words, {
    ...{ env, extendEnv: false, reject: false },
  });
  return { exitCode, lines: stderr.split('\n').filter((line) => line !== '') };
};

describe('the Debian packages', () => {
  beforeEach(provideNpmPackages);

  test('that a layer needs are named, with the layer, before apt-get is asked for just those', async () => {
    provideDebian(0);
    expect(await setUp(['lint'])).toEqual({
      exitCode: 0,
      lines: [
        'installing the Debian packages shellcheck, for: lint',
        'apt-get update -qq',
        'apt-get install -y -qq --no-install-recommends shellcheck',
      ],
    });
  });

  test.each(['unit', 'property', 'model', 'fuzz'])('are not needed by %s, nor is root', async (layer) => {
    provideDebian(1000);
    expect(await setUp([layer])).toEqual({ exitCode: 0, lines: [] });
  });

  test('are named to whoever is not root, and nothing is installed', async () => {
    provideDebian(1000);
    expect(await setUp(['lint', 'unit'])).toEqual({
      exitCode: 1,
      lines: ['setup: not root, and these packages are missing: apt-get install shellcheck'],
    });
  });

  test('are not asked for where their programs are, whatever system it is', async () => {
    provide('shellcheck');
    expect(await setUp(['lint'])).toEqual({ exitCode: 0, lines: [] });
  });

  test('are named with their programs where there is no apt-get', async () => {
    expect(await setUp(['lint'])).toEqual({
      exitCode: 1,
      lines: [
        "setup: not found: shellcheck; there is no apt-get here: install them by hand (Debian's packages: shellcheck)",
      ],
    });
  });

  test('of an unknown part are an error that names the parts', async () => {
    const { exitCode, lines } = await setUp(['lnt']);
    expect(exitCode).toBe(1);
    expect(lines).toEqual([expect.stringMatching(/^setup: unknown part: lnt \(there are: .*demo.*\)$/)]);
  });

  test('are those of the tests: every layer of scripts/test is a part, and every part of one', async () => {
    provideDebian(0);
    const words = new Set(parts.flatMap(({ layer, name }) => [layer, name]));
    expect(words.size).toBeGreaterThan(15);
    expect(await setUp([...words])).toMatchObject({ exitCode: 0 });
  });
});

test.each(['build', 'vipnat'])('scripts/%s sets up the npm packages of a fresh clone', async (name) => {
  for (const file of ['build', 'vipnat']) copyFileSync(`scripts/${file}`, join(checkout, 'scripts', file));
  writeProgram(join(checkout, 'scripts/setup'), 'echo "$*" >&2; exit 1');
  const options = { env: { PATH: join(checkout, 'path') }, extendEnv: false, reject: false };
  expect(await execa(join(checkout, 'scripts', name), [], options)).toMatchObject({ stderr: 'node' });
});

describe('the pinned Node.js', () => {
  const name = `node-linux-${process.arch}`;
  let registry: Server;

  afterEach(async () => {
    registry.close();
    registry.closeAllConnections();
    await once(registry, 'close');
  });

  /** A registry on this machine that has the package, and what the lock file says of it. */
  async function serve(checksum: (tarball: Buffer) => string): Promise<NodeJS.ProcessEnv> {
    const folder = join(checkout, 'package');
    mkdirSync(join(folder, 'bin'), { recursive: true });
    writeProgram(join(folder, 'bin/node'), 'echo v24.0.0');
    const manifest = { name, version: '24.0.0', bin: { node: 'bin/node' } };
    writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
    await execa('tar', ['-czf', join(checkout, 'package.tgz'), '-C', checkout, 'package']);
    const tarball = readFileSync(join(checkout, 'package.tgz'));
    registry = createServer(({ url }, response) => {
      response.end(url?.endsWith('.tgz') === true ? tarball : JSON.stringify(describePackage()));
    }).listen(0, '127.0.0.1');
    await once(registry, 'listening');
    const address = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
    const describePackage = () => ({
      name,
      'dist-tags': { latest: '24.0.0' },
      versions: { '24.0.0': { ...manifest, dist: { tarball: `${address}/${name}/-/${name}-24.0.0.tgz` } } },
    });
    const own = { name: 'x', version: '1.0.0', optionalDependencies: { [name]: '24.0.0' } };
    const locked = { version: '24.0.0', integrity: checksum(tarball), optional: true, bin: manifest.bin };
    const packages = { '': own, [`node_modules/${name}`]: locked };
    const [file, lock] = ['package.json', 'package-lock.json'].map((one) => join(checkout, one));
    writeFileSync(file ?? '', JSON.stringify({ ...own, devDependencies: {} }));
    writeFileSync(lock ?? '', JSON.stringify({ ...own, lockfileVersion: 3, packages }));
    const { PATH } = process.env;
    return {
      ...{ PATH, HOME: checkout, npm_config_registry: address, npm_config_cache: join(checkout, 'cache') },
      npm_config_fetch_retries: '0',
    };
  }

  const sum = (bytes: Buffer | string) => `sha512-${createHash('sha512').update(bytes).digest('base64')}`;

  test('is installed when it has the checksum of the lock file', async () => {
    const env = await serve(sum);
    expect(await setUp(['node'], env)).toEqual({ exitCode: 0, lines: ['installing the npm packages'] });
    expect(existsSync(join(checkout, 'node_modules/.bin/node'))).toBe(true);
    // The few packages of a build take the place of all, and are not taken for all.
    expect(await setUp(['build'], env)).toEqual({ exitCode: 0, lines: [] });
    expect(readdirSync(join(checkout, 'node_modules'))).not.toContain('node_modules');
    expect(await setUp(['node'], env)).toEqual({ exitCode: 0, lines: ['installing the npm packages'] });
  });

  test('is refused, and nothing of it kept, when it has another', async () => {
    const { exitCode, lines } = await setUp(['node'], await serve(() => sum('other bytes')));
    expect({ exitCode, last: lines.at(-1) }).toEqual({
      exitCode: 1,
      last: expect.stringMatching(/^setup: (?:npm installed no Node\.js|npm install .* failed)/),
    });
    expect(readdirSync(join(checkout, 'node_modules/.bin'))).toEqual([]);
  });
});
