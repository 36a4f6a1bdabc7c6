/**
 * The tools of one version write, those of another one read: what a node has whose pods bring their own nft and iptables. Each folder of tools
 * is of a suite of Debian, see test/support/suites/unpack.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { Outcome } from './suites-services.ts';
import { listPairs, type Suite, suiteNames, unpackSuite } from '../support/suites/suites.ts';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { families } from '../../lib/net.ts';

const pairs = listPairs("the API's VIP");
const folders = {} as Record<Suite, string>;
const pathOf = (script: string) => fileURLToPath(new URL(script, import.meta.url));

beforeAll(() => {
  for (const suite of suiteNames) folders[suite] = `${unpackSuite(suite)}/bin`;
}, 600_000);

/** Runs a program in new namespaces, and answers how it ended and what it printed. */
async function run(command: readonly string[]): Promise<{ readonly status: number; readonly text: string }> {
  const own = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"';
  return await promisify(execFile)('unshare', [
    '--net',
    '--mount',
    '--',
    'sh',
    '-c',
    own,
    'sh',
    ...command,
  ]).then(
    ({ stdout }) => ({ status: 0, text: stdout }),
    (error: unknown) => {
      const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
      return { status: code, text: `${stdout}${stderr}` };
    },
  );
}

const node = [process.execPath, '--disable-warning=ExperimentalWarning'];

describe('Services', () => {
  const outcomes = new Map<Suite, Outcome>();
  beforeAll(async () => {
    for (const writer of ['bookworm', 'trixie'] as const) {
      const readers = suiteNames.map((suite) => folders[suite]);
      const { text } = await run([...node, pathOf('suites-services.ts'), folders[writer], ...readers]);
      outcomes.set(writer, JSON.parse(text) as Outcome);
    }
  }, 600_000);

  test.each(['bookworm', 'trixie'] as const)('the nft of %s takes every shape', (writer) => {
    expect(outcomes.get(writer)?.refused).toEqual([]);
  });

  test.each(listPairs('Services'))(
    'what vipnat writes by the nft of %s, that of %s lists, and finds nothing to do',
    (writer, reader) => {
      expect(outcomes.get(writer)?.readers[folders[reader]]).toEqual({ listing: 'listed', drifted: [] });
    },
  );
});

describe("the API's VIP", () => {
  const masters = {
    ipv4: ['10.0.0.1', '10.0.0.2', '10.0.0.3'],
    ipv6: ['[fd00::1]', '[fd00::2]', '[fd00::3]'],
  };
  const addVips = ['ip address add 10.0.0.50/32 dev lo', 'ip address add fd00::50/128 dev lo nodad'];
  const endpoints = families.flatMap((family) => masters[family]).map((address) => `${address}:6443`);
  const words = ['--vip', '10.0.0.50:6443', '--vip', '[fd00::50]:6443', '--endpoints', endpoints.join()];

  test.each(
    pairs.flatMap(([writer, reader]) =>
      ['nft', 'legacy', 'none'].map((dialect) => [writer, reader, dialect] as const),
    ),
  )(
    'what vipnat writes by the tools of %s, those of %s find as it was written: --iptables %s',
    async (writer, reader, dialect) => {
      const vipnat = [...node, pathOf('../../cli/main.ts')];
      const common = [...words, '--mode=direct', `--iptables=${dialect}`];
      const script = [
        ...addVips,
        `PATH=${folders[writer]}:$PATH ${[...vipnat, 'run', '--once', ...common].join(' ')} >&2`,
        `PATH=${folders[reader]}:$PATH nft list ruleset >/dev/null`,
        `PATH=${folders[reader]}:$PATH ${[...vipnat, 'check', ...common].join(' ')}`,
      ].join('\n');
      expect(await run(['bash', '-ec', script])).toMatchObject({ status: 0 });
    },
  );
});
