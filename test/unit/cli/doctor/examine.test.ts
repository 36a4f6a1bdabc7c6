import { test, expect, describe } from '@jest/globals';
import {
  tell,
  assessWell,
  assessing,
  observing,
  withoutVip,
  withFirst,
  makeFacts,
  serving,
  withSysctl,
  advert,
  own,
} from '../../../support/doctor/well-host.ts';
import { findingCodes, diagnose } from '../../../../cli/doctor/examine.ts';
import type { HostFacts } from '../../../../cli/doctor/facts.ts';

test('a host that lacks nothing is told nothing', async () => {
  expect(await tell()).toEqual([]);
});

test('codes are in kebab case, each once', () => {
  expect(new Set(findingCodes).size).toBe(findingCodes.length);
  expect(findingCodes.filter((code) => !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(code))).toEqual([]);
});

test.each([
  ['draining' as const, true, []],
  ['draining' as const, false, ['apiserver-down']],
  ['dead' as const, true, ['apiserver-down']],
])('an apiserver that is %s, on a drained host: %s, is told of as %j', async (state, isDrained, codes) => {
  const told = await tell(await withFirst({ state, isDrained }));
  expect(told.map(({ code }) => code)).toEqual(codes);
});

test.each([
  ['dead', { state: 'dead' as const, reason: 'connection refused' }, 'dead: connection refused'],
  ['odd', { state: 'ready' as const, unconfirmedFailure: '[-]etcd failed' }, 'suspected: [-]etcd failed'],
])('apiservers that are all %s are one failure, and the way out begins with etcd', async (_, health, how) => {
  const { health: well } = await assessWell();
  const all = new Map([...well].map(([text, one]) => [text, { ...one, ...health }]));
  expect(await tell(await assessing({ health: all }))).toMatchObject([
    {
      code: 'apiserver-down',
      level: 'fail',
      title: `no apiserver is ready (${how})`,
      remedy: expect.arrayContaining([expect.stringContaining('etcd')]),
    },
  ]);
});

test('an apiserver that answers no probe is told of with the way out', async () => {
  const livenessOnly = '/readyz answers 401 without credentials, and vipnat has none';
  expect(await tell(await withFirst({ livenessOnly }))).toMatchObject([
    {
      code: 'liveness-only',
      level: 'warn',
      title: `vipnat sees only whether 10.77.0.11:6443 lives: ${livenessOnly}`,
      remedy: expect.arrayContaining(['# start the agent with the option --kubeconfig FILE']),
    },
  ]);
});

test('what a source names and vipnat does not use is told of once', async () => {
  const sentence =
    '--endpoints names 10.77.0.14:6443, and nat KUBE-SVC-X does not. vipnat uses the list of nat KUBE-SVC-X';
  expect(await tell(await assessing({ refused: [sentence, sentence] }))).toMatchObject([
    { code: 'endpoints-refused', level: 'warn', title: sentence },
  ]);
});

test('what is unknown keeps only the checks from being made that rest on it', async () => {
  const assessment = { unknown: 'iptables-nft-save is not permitted' };
  const told = await tell({ assessment });
  expect(told.find(({ code }) => code === 'host-unreadable')).toMatchObject({ level: 'fail' });
  expect(told.find(({ code }) => code === 'foreign-dnat')).toEqual({
    ...{ code: 'foreign-dnat', level: 'skipped', reason: assessment.unknown },
  });
  const made = diagnose(await makeFacts({ assessment })).flatMap((topic) => topic.outcomes);
  expect(made.find(({ code }) => code === 'keepalived-not-running')).toEqual({
    code: 'keepalived-not-running',
    level: 'ok',
  });
});

/** What is wrong with another host's apiserver is nothing to be mended by commands that are pasted here. */
const onOther = '# on 10.77.0.12: vipnat doctor --vip=10.77.0.50:6443';

describe('is told, with the command that mends it:', () => {
  test.each<[string, Partial<typeof serving>, string]>([
    ['certificate-lacks-vip', { alternativeNames: 'DNS:kubernetes, IP Address:10.96.0.1' }, onOther],
    ['certificate-expires', { validTo: new Date('2026-11-26T12:00:00Z') }, onOther],
    ['clock-off', { clockAheadMs: -61_000 }, 'timedatectl set-ntp true'],
  ])('%s, of an apiserver on another host by its address', async (code, difference, command) => {
    const answers = new Map([
      ['10.77.0.12:6443', { ...serving, ...difference }],
      ['10.77.0.13:6443', null],
    ]);
    const told = (await tell({ serving: { value: answers } })).filter(({ level }) => level !== 'skipped');
    expect(told).toMatchObject([{ code, remedy: expect.arrayContaining([command]) }]);
    expect(told.flatMap((one) => ('remedy' in one ? one.remedy : [])).join('\n')).not.toMatch(
      /^(?:kubeadm|crictl)/m,
    );
  });

  test('strict rp_filter, where this host is in several networks', async () => {
    const eth1 = { family: 'ipv4', address: '192.168.0.11', device: 'eth1', prefixLength: 24 } as const;
    const eth0 = { ...eth1, address: '10.77.0.11', device: 'eth0' };
    const strict = withSysctl('net.ipv4.conf.eth0.rp_filter', '1');
    strict.sysctls.set('net.ipv4.conf.all.rp_filter', '0');
    expect(await tell({ ...strict, interfaces: [eth0, eth1] })).toMatchObject([
      { code: 'rp-filter-strict', remedy: ['sysctl -w net.ipv4.conf.all.rp_filter=2'] },
    ]);
    expect(await tell({ ...strict, interfaces: [eth0] })).toEqual([]);
    const loose = new Map([...strict.sysctls, ['net.ipv4.conf.all.rp_filter', '2']]);
    expect(await tell({ sysctls: loose, interfaces: [eth0, eth1] })).toEqual([]);
  });
});

const linkHolders = {
  value: new Map([['10.77.0.50', { mac: '02:42:0a:4d:00:0c', addresses: ['10.77.0.12'] }]]),
};

test('the VIP is held twice when it is here and another host answers for it that sends no VRRP', async () => {
  const told = await tell({ linkHolders });
  expect(told).toMatchObject([{ code: 'vip-held-without-vrrp', level: 'fail' }]);
});

const answer = (kind: 'refused' | 'silent') => ({ vipHolderAnswers: new Map([['10.77.0.50', { kind }]]) });
const unreachable = {
  vipHolderAnswers: new Map([['10.77.0.50', { kind: 'unreachable', code: 'EHOSTUNREACH' } as const]]),
};
const silent = answer('silent');
const adverts = { value: [advert] };
const unasked = { linkHolders: { unknown: 'asking the kernel is not permitted' } };
const strange: unknown = expect.stringContaining('10.77.0.12, MAC 02:42:0a:4d:00:0c');

test.each<[string, Partial<HostFacts>, readonly object[]]>([
  ['is somewhere when a host refuses a connection to it', answer('refused'), []],
  ['is somewhere when a host advertises it', { ...silent, adverts }, []],
  ['is nowhere when nobody does', unreachable, [{ code: 'vip-nowhere', level: 'fail' }]],
  [
    'may be somewhere when its network cannot be asked, whatever a firewall answered',
    { ...unreachable, ...unasked },
    [
      { code: 'vip-nowhere', level: 'warn' },
      { code: 'vip-held-without-vrrp', level: 'skipped' },
    ],
  ],
  ['is held by whoever answers there, though a connect is silent', { ...silent, linkHolders, adverts }, []],
  ['is so behind a firewall that refuses, too', { ...unreachable, linkHolders, adverts }, []],
  [
    'is held by a host that sends no VRRP, when it answers and nobody advertises it',
    { linkHolders },
    [{ code: 'vip-held-without-vrrp', level: 'warn', title: strange }],
  ],
])('the VIP that is on no interface of this host %s', async (_, changes, told) => {
  expect(await tell({ ...(await withoutVip()), ...changes })).toMatchObject(told);
});

test('a handover is no double: one gives up before the other begins', async () => {
  const resigned = { ...own, priority: 0 };
  expect(await tell({ adverts: { value: [own, own, advert, resigned, advert] } })).toEqual([]);
});

/** Docker has a rule in the table nat of iptables-nft, whose tool may be another, too. */
async function withDocker(rule: string, more: object = {}): Promise<Partial<HostFacts>> {
  const { observation } = await assessWell();
  const rulesets = observation.rulesets.map((one) => {
    if (one.family !== 'ipv4' || one.dialect !== 'nft') return one;
    const nat = new Map([...(one.tables.get('nat') ?? []), ['DOCKER', [rule]] as const]);
    return { ...one, ...more, tables: new Map([...one.tables, ['nat', nat] as const]) };
  });
  return await observing({ rulesets });
}

test('of a tool that hides ports, that is told, and not that a rule without a port is for the VIP', async () => {
  const rule = '-d 10.77.0.50/32 -p tcp -j DNAT --to-destination 10.0.0.9:80';
  const codesOf = async (hidesPorts: boolean) =>
    (await tell(await withDocker(rule, { hidesPorts }))).map(({ code }) => code);
  expect([await codesOf(false), await codesOf(true)]).toEqual([['foreign-dnat'], ['rules-unread']]);
});

test('a stranger’s rule is quoted so that its text cannot run anything', async () => {
  const match = '-d 10.77.0.50/32 -p tcp -m tcp --dport 6443 -m comment --comment';
  const target = '-j DNAT --to-destination 10.0.0.9:6443';
  expect(await tell(await withDocker(`${match} "it's $(reboot)" ${target}`))).toMatchObject([
    {
      code: 'foreign-dnat',
      remedy: [String.raw`iptables-nft -t nat -D DOCKER ${match} 'it'\''s $(reboot)' ${target}`],
    },
  ]);
});
