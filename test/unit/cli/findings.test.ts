import { describe, test, expect } from '@jest/globals';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';
import {
  listUnnamedVips,
  formatRunOnce,
  findForeignDrops,
  findDropRules,
  describeInSync,
  describeKubeProxy,
} from '../../../cli/findings.ts';
import { assessUnnamed } from '../agent/report/unnamed-host.ts';
import { formatEndpoint } from '../../../lib/net.ts';
import type { HostFacts } from '../../../cli/doctor/facts.ts';
import { tell } from '../../support/doctor/well-host.ts';
import type { ForwardChain } from '../../../lib/kernel/port.ts';
import { restoreCaptures, lookOnce } from '../../support/agent/captured-host.ts';
import type { Decision } from '../../../agent/decide/decision.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';

const others = ['10.0.0.60:6443', '10.0.0.60:8443', '[fd00::60]:6443'];

describe('virtual IPs that only the rules name', () => {
  test.each<[string, typeof ordinaryConfig]>([
    ['of iptables', ordinaryConfig],
    ['of our own table', { ...ordinaryConfig, iptables: 'none', mode: 'direct' }],
    ['without masquerading', { ...ordinaryConfig, masquerade: 'none' }],
  ])('are all found in rules %s', async (_, config) => {
    const found = listUnnamedVips(await assessUnnamed(others, config));
    expect(found.map(formatEndpoint)).toEqual(others);
  });

  test('are none where all are named', async () => {
    expect(listUnnamedVips(await assessUnnamed([]))).toEqual([]);
  });

  test('are repeated as a shell takes them', async () => {
    const unnamed = listUnnamedVips(await assessUnnamed(others));
    expect(formatRunOnce('--vip=10.0.0.50:6443 --mode=direct', unnamed)).toBe(
      "vipnat run --once --vip=10.0.0.50:6443 --mode=direct --vip=10.0.0.60:6443 --vip=10.0.0.60:8443 '--vip=[fd00::60]:6443'",
    );
  });
});

describe("doctor, without an agent, beside another virtual IP's rules", () => {
  const facts = async (): Promise<Partial<HostFacts>> => ({
    assessment: { value: await assessUnnamed(['10.0.0.60:6443']) },
    agent: null,
    flags: '--vip=10.0.0.50:6443',
  });

  test('leaves it to a person whether they are still wanted', async () => {
    const told = (await tell(await facts())).find(({ code }) => code === 'stale-rules');
    expect(told).toMatchObject({
      why: 'These rules still match connections: to a VIP that no --vip names, or to apiservers that are gone.',
      remedy: [
        '# no --vip names 10.0.0.60:6443, and vipnat has rules for it here',
        '# if it is still wanted, name it too: vipnat run --once --vip=10.0.0.50:6443 --vip=10.0.0.60:6443',
        '# if it is no longer wanted: vipnat cleanup --vip=10.0.0.60:6443',
      ],
    });
  });

  test('prints no command that takes them away', async () => {
    const remedies = (await tell(await facts())).flatMap((one) => ('remedy' in one ? one.remedy : []));
    const commands = remedies.filter((line) => !line.startsWith('#'));
    expect(commands.filter((line) => /vipnat (?:run|cleanup)/.test(line))).toEqual([]);
  });
});

test('a remedy for rules that differ keeps what no --vip names', async () => {
  const assessment = await assessUnnamed(['10.0.0.60:6443']);
  const [table] = assessment.plan.tables;
  if (table === undefined) throw new Error('nothing is left over');
  const missing = { kind: 'missing-hook', chain: 'PREROUTING', message: 'PREROUTING has no jump' } as const;
  const plan = { ...assessment.plan, tables: [{ ...table, drift: [missing] }] };
  const told = await tell({
    assessment: { value: { ...assessment, plan } },
    agent: null,
    flags: '--vip=10.0.0.50:6443',
  });
  expect(told.find(({ code }) => code === 'rules-differ')).toMatchObject({
    remedy: ['vipnat run --once --vip=10.0.0.50:6443 --vip=10.0.0.60:6443'],
  });
});

const chains: ForwardChain[] = [
  { table: 'inet firewall', name: 'forward', isDropping: true },
  { table: 'inet polite', name: 'forward', isDropping: false },
  { table: 'ip filter', name: 'FORWARD', isDropping: true },
  { table: 'ip6 filter', name: 'FORWARD', isDropping: true },
  { table: 'ip filter', name: 'forward', isDropping: true },
  { table: 'ip6 filter', name: 'forward', isDropping: true },
  { table: 'ip vipnat', name: 'forward', isDropping: true },
];

async function namesAt(capture: string, hasIptables: boolean): Promise<string[]> {
  const kernel = restoreCaptures([capture]);
  kernel.hasIptables = hasIptables;
  return findForeignDrops(chains, await lookOnce(kernel, ordinaryConfig)).map(
    ({ table, name }) => `${table} ${name}`,
  );
}

test("chains of the VIP's family that drop and are not ours to write to are named", async () => {
  expect(await namesAt('nft-kube-proxy.three-endpoints.json', true)).toEqual([
    'inet firewall forward',
    // iptables has a chain of another name in that table.
    'ip filter forward',
  ]);
});

test("where no iptables is installed, iptables' own chain is one of them", async () => {
  expect(await namesAt('nft-kube-proxy.three-endpoints.json', false)).toEqual([
    'inet firewall forward',
    'ip filter FORWARD',
    'ip filter forward',
  ]);
});

test('what is not balanced is not dropped on its way', async () => {
  expect(await namesAt('nft-kube-proxy.no-endpoints.json', true)).toEqual([]);
});

/** The rules that are found on a host whose VIP 10.0.0.50:6443 is balanced over 10.77.0.11 to 13. */
async function findWith(...rules: readonly string[]): Promise<string[]> {
  const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
  kernel.run('ipv4', 'nft', `*mangle\n${rules.map((rule) => `-A ${rule}\n`).join('')}COMMIT\n`);
  return findDropRules(await lookOnce(kernel, ordinaryConfig)).map(({ place }) => place);
}

test.each([
  ['FORWARD', 'FORWARD -d 10.77.0.12/32 -p tcp -m tcp --dport 6443 -j DROP'],
  ['FORWARD', 'FORWARD -s 10.77.0.0/24 -p tcp -m tcp --sport 6443 -j DROP'],
  ['PREROUTING', 'PREROUTING -d 10.0.0.50/32 -j DROP'],
  ['POSTROUTING', 'POSTROUTING -p tcp -m multiport --dports 443,6443 -j DROP'],
])('what drops all connections in %s is found: %s', async (chain, rule) => {
  expect(await findWith(rule)).toEqual([`mangle ${chain} of iptables-nft`]);
});

test.each([
  'PREROUTING -s 192.0.2.0/24 -d 10.0.0.50/32 -j DROP',
  'PREROUTING -m conntrack --ctstate INVALID -j DROP',
  'FORWARD -d 10.0.0.50/32 -j DROP',
  'FORWARD -d 10.77.0.12/32 -p udp -j DROP',
  'FORWARD -d 10.77.0.12/32 -j MARK --set-xmark 0x1/0x1',
])('what drops others, or those of some clients, is none: %s', async (rule) => {
  expect(await findWith(rule)).toEqual([]);
});

test.each([
  [[], ['PREROUTING -i eth0 -j ACCEPT', 'PREROUTING -m set --match-set friends src -j RETURN']],
  [
    ['mangle PREROUTING of iptables-nft'],
    ['PREROUTING -p udp -j ACCEPT', 'PREROUTING -i eth0 -j MARK --set-xmark 0x1/0x1'],
  ],
])('behind what may let connections pass, a rule does not drop all: found %j', async (found, before) => {
  expect(await findWith(...before, 'PREROUTING -j DROP')).toEqual(found);
});

const direct: Decision = {
  vip: toEndpoint('[fd00::50]:6443'),
  mode: 'direct',
  reason: 'this host runs no kube-proxy',
  isBypass: false,
  clusterIp: null,
  affinitySeconds: null,
  backends: [toEndpoint('[fd00::11]:6443')],
};

test('a VIP that is balanced says over how many apiservers', () => {
  expect(describeInSync(direct)).toBe(
    '[fd00::50]:6443 is balanced, and its rules are in sync (direct, 1 apiserver)',
  );
});

test('a VIP that is not balanced says so loudly, and why', () => {
  expect(describeInSync({ ...direct, mode: 'passthrough', backends: [] })).toBe(
    "[fd00::50]:6443 is NOT BALANCED (passthrough): this host runs no kube-proxy. Only the VIP holder's own apiserver answers",
  );
});

test('kube-proxy is described by its mode, backend and what says so', () => {
  const proxyMode = { value: 'iptables', seenIn: 'reported at 127.0.0.1:10249' } as const;
  expect(describeKubeProxy({ proxyMode, dialect: { value: 'nft', seenIn: 'the default' } })).toBe(
    'kube-proxy: iptables (nft), reported at 127.0.0.1:10249',
  );
});
