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
import { isFull } from '../support/jest/extent.ts';

const isInGate = ([writer, reader]: readonly [Suite, Suite]) => writer === 'trixie' && reader !== 'trixie';
const pairs = listPairs("the API's VIP").filter((pair) => isFull || isInGate(pair));
const folders = {} as Record<Suite, string>;
const pathOf = (script: string) => fileURLToPath(new URL(script, import.meta.url));

beforeAll(() => {
  for (const suite of suiteNames) folders[suite] = `${unpackSuite(suite)}/bin`;
}, 600_000);

/** Runs a program in new namespaces, and answers how it ended and what it printed. */
async function run(command: readonly string[]): Promise<{ readonly status: number; readonly text: string }> {
  const own = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"';
  const words = ['--net', '--mount', '--', 'sh', '-c', own, 'sh', ...command];
  return await promisify(execFile)('unshare', words).then(
    ({ stdout }) => ({ status: 0, text: stdout }),
    (error: unknown) => {
      const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
      return { status: code, text: `${stdout}${stderr}` };
    },
  );
}

const node = [process.execPath, '--disable-warning=ExperimentalWarning'];
const vipnat = [...node, pathOf('../../cli/main.ts')].join(' ');
const use = (suite: Suite) => `export PATH=${folders[suite]}:$PATH`;

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
      const common = [...words, '--mode=direct', `--iptables=${dialect}`].join(' ');
      const script = [
        ...addVips,
        use(writer),
        `${vipnat} run --once ${common} >&2`,
        use(reader),
        'nft list ruleset >/dev/null',
        `${vipnat} check ${common}`,
      ].join('\n');
      // No apiserver runs here. Writer and reader say of both VIPs how they are.
      const { status, text } = await run(['bash', '-ec', script]);
      expect([status, text.match(/rules are in sync/g)?.length]).toEqual([2, 4]);
    },
  );

  test.each(pairs)(
    'of what vipnat writes by the tools of %s, those of %s remove one VIP, and leave the others',
    async (writer, reader) => {
      const others = '--vip 10.0.0.50:6443 --vip 10.0.0.50:7443 --vip 10.0.0.52:6443';
      const write = `${vipnat} run --once --iptables=nft --endpoints ${masters.ipv4[0]}:6443 ${others}`;
      // The ids of rules count the rules before.
      const list = `${use('trixie')}; iptables-save | sed -n '/^-A .*VIPNAT/ s/vipnat:[^"]*//p'`;
      const script = [
        use(writer),
        `${write} --vip 10.0.0.51:6443 >&2`,
        `(${use(reader)}; ${vipnat} cleanup --vip=10.0.0.51:6443 >&2; ${list})`,
        'nft flush ruleset; echo afresh',
        `${write} >&2`,
        list,
      ].join('\n');
      const { text } = await run(['bash', '-ec', script]);
      const [left, afresh] = text.split('afresh\n');
      expect(afresh).toContain('--dport 7443');
      expect(left).toBe(afresh);
    },
  );
});

describe("kube-proxy's rules", () => {
  const capture = pathOf('../support/fixtures/captures/iptables-nft-save.three-endpoints.txt');

  // Of a host with many rules only some chains are listed.
  test.each([...pairs.map((pair) => [...pair, 0] as const), ['trixie', 'bullseye', 400] as const])(
    'that are written by the tools of %s, those of %s read: vipnat balances, beside %s other rules',
    async (writer, reader, others) => {
      const more = `for one in $(seq ${others}); do echo "-A OTHERS -p tcp -m tcp --dport $one -j RETURN"; done`;
      const script = [
        'ip address add 10.0.0.50/32 dev lo',
        use(writer),
        // The kernel's counter of that name is not here.
        `grep -v nfacct ${capture} | iptables-restore`,
        `{ echo '*nat'; echo ':OTHERS - [0:0]'; ${more}; echo COMMIT; } | iptables-restore --noflush`,
        use(reader),
        `${vipnat} run --once --vip 10.0.0.50:6443 2>&1`,
      ].join('\n');
      const text = expect.stringContaining('all 3 stay in use. Its rules are in sync (service-chain)');
      expect(await run(['bash', '-ec', script])).toEqual({ status: 0, text });
    },
  );
});
