import { direct, toEndpoint } from '../../../support/fakes/endpoints.ts';
import type { Health } from '../../../../agent/health/usable.ts';
import { canServe, decide, isAgreeing, planOffline, describeMode } from '../../../../agent/decide/mode.ts';
import { describe, test, expect, jest } from '@jest/globals';
import type { VipFacts, Decision } from '../../../../agent/decide/decision.ts';
import { lookUp, type Row, table, type Outcome, toOutcome, isBypass, isAgreed } from './table.ts';
import { listFacts } from './every-facts.ts';
import { vipChainName } from '../../../../lib/dialect.ts';
import type { Config } from '../../../../config/options.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';

const vip = toEndpoint('10.0.0.50:6443');
const all = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'];
const [own = ''] = all;

const ready: Health = { state: 'ready', reason: '', staleConnections: 'none' };
const refusing: Health = { state: 'dead', reason: 'refused', staleConnections: 'none' };
const unresponsive: Health = { state: 'dead', reason: 'no answer', staleConnections: 'half-open' };
const unheard: Health = { ...ready, isUnresponsive: true };
const healths: Readonly<Record<string, Health>> = {
  ...{ ready, refusing, unresponsive, unheard },
  warming: { ...ready, state: 'warming' },
  lost: { ...unresponsive, isLost: true },
  'long-unheard': { ...unheard, isLost: true },
  drained: { ...ready, state: 'draining', isDrained: true },
};

interface Case {
  readonly backends?: readonly string[];
  readonly local?: string;
  readonly isListening?: boolean;
  readonly isLeaving?: boolean;
}

/** `seen` has a word for the health of each apiserver that was probed; the first is this host's own. */
const judge = (
  seen: string,
  { backends = all, local = '10.0.0.11', isListening = true, isLeaving }: Case = {},
) =>
  canServe({
    decisions: [{ vip, backends: backends.map(toEndpoint) }],
    addresses: [{ family: 'ipv4', address: local, device: 'eth0' }],
    health: new Map((seen.match(/\S+/g) ?? []).map((word, at) => [all[at] ?? '', healths[word] ?? ready])),
    isListening: () => isListening,
    isLeaving: isLeaving ?? false,
  });

const [unbalanced, deaf] = [{ backends: [] }, { backends: [], isListening: false }];

test.each<[string, boolean, string, Case?]>([
  ['all is well', true, 'ready ready ready'],
  ['nobody was probed yet', true, ''],
  ['its own apiserver is dead', true, 'refusing ready ready'],
  ['only one apiserver lives', true, 'refusing unresponsive ready'],
  ['only its own lives', true, 'ready lost lost'],
  ['only its own lives, and nobody else is heard', true, 'ready long-unheard long-unheard'],
  ['its own is dead, and nobody else is heard for a moment', true, 'refusing unheard unresponsive'],
  ['all refuse: nobody would do better', true, 'refusing refusing refusing'],
  ['its own is the only one and dead', true, 'refusing', { backends: [own] }],
  ['nothing is balanced and its own apiserver lives', true, 'ready ready', unbalanced],
  ['nothing is balanced and no apiserver is known', true, '', unbalanced],
  ['nothing is known and nobody listens: another node does no better', true, '', deaf],
  ['nobody listens there, but it is balanced', true, 'ready ready', { backends: [own], isListening: false }],
  ['nothing is balanced, nobody listens and all others refuse', true, 'ready refusing', deaf],
  ['nothing is balanced, its own lives and nobody listens at the VIP', false, 'ready ready', deaf],
  ['nothing is balanced, its own is dead and another lives', false, 'refusing ready', unbalanced],
  ['nothing is balanced and it has none itself', false, 'ready ready', { backends: [], local: '10.0.0.99' }],
  ['its own is dead, and others may serve unheard', false, 'refusing long-unheard long-unheard'],
  ['its own is dead, and no other host is heard: that is this side', false, 'refusing lost lost'],
])('where %s, a node may hold the VIP: %s', (_, mayHold, seen, more = {}) => {
  expect(judge(seen, more)).toBe(mayHold);
});

const drainedBeside = { ready: false, warming: false, drained: true, refusing: true, unheard: true };
test.each(Object.entries(drainedBeside))('a drained one beside one that is %s may: %s', (other, mayHold) => {
  expect(judge(`drained ${other}`, { isLeaving: true })).toBe(mayHold);
  // Without the drain it may, whatever the other is like.
  expect(judge(`drained ${other}`)).toBe(true);
});

test('of two VIPs one that is served is enough: all move together', () => {
  const health = new Map([
    [own, refusing],
    ['10.0.0.12:6443', ready],
  ]);
  const served = { vip: toEndpoint('[fd00::50]:6443'), backends: [toEndpoint('[fd00::12]:6443')] };
  const notServed = { vip, backends: [] };
  const addresses = [{ family: 'ipv4', address: '10.0.0.11', device: 'eth0' }] as const;
  const rest = { addresses, health, isListening: () => true };
  expect(canServe({ decisions: [notServed], ...rest })).toBe(false);
  expect(canServe({ decisions: [notServed, served], ...rest })).toBe(true);
});

// A million decisions take seconds; on a busy machine, several times that.
jest.setTimeout(300_000);

test('whatever the facts, decide() is the first row of the table that holds, always the same, and never in the way of kube-proxy (I3, I11)', () => {
  const rowToCount = new Map<Row, number>(table.map((row) => [row, 0]));
  let count = 0;
  for (const facts of listFacts()) {
    count += 1;
    const { row, outcome } = lookUp(facts);
    rowToCount.set(row, (rowToCount.get(row) ?? 0) + 1);
    const complaint = findComplaint(facts, outcome);
    if (complaint !== null)
      throw new Error(`${complaint}; the row is: ${row.when}: ${JSON.stringify(facts)}`);
  }
  expect(count).toBe(1_393_920);
  expect([...rowToCount].filter(([, times]) => times === 0)).toEqual([]);
});

function findComplaint(facts: VipFacts, wanted: Outcome): string | null {
  const decision = decide(facts);
  const found = toOutcome(decision);
  if (found.mode !== wanted.mode) return `goes ${found.mode}, not ${wanted.mode}`;
  if (found.backends !== wanted.backends) return `to ${found.backends}, not to ${wanted.backends}`;
  if (decision.isBypass !== isBypass(facts)) return `isBypass is ${String(decision.isBypass)}`;
  if (facts.serviceChain !== null && decision.clusterIp === null) return 'does not tell the ClusterIP';
  // In other modes nobody asks.
  const isAsked = ['iptables', 'ipvs'].includes(facts.proxyMode.value);
  if (isAsked && isAgreeing(facts) !== isAgreed(facts)) return 'counts this look wrongly';
  return findFault(facts, decision);
}

/** What is wrong with a decision, whatever the table says. */
function findFault(facts: VipFacts, decision: Decision): string | null {
  const { mode, reason, clusterIp } = decision;
  if (reason === '') return 'has no reason';
  if (mode === 'cluster-ip' && clusterIp === null) return 'has no ClusterIP to go to';
  // A jump into a chain that kube-proxy wants gone, or that is not there, would pin it.
  if (mode === 'service-chain' && (facts.unwanted !== null || facts.serviceChain === null))
    return 'pins a chain (I11)';
  const again = decide(facts);
  const isSame = again.reason === reason && toOutcome(again).backends === toOutcome(decision).backends;
  return isSame ? null : 'is another one the second time (I3)';
}

const offlineVip = toEndpoint('172.16.64.58:6443');
const chain = vipChainName(offlineVip);
const config: Config = { ...ordinaryConfig, vips: [offlineVip], proxyMode: 'iptables' };

/** The rules of a chain in a script, without their comments. */
function rulesIn({ plan }: ReturnType<typeof planOffline>, name: string): string[] {
  const script = plan.transactions.map(({ input }) => input).join('');
  const rules = script.matchAll(new RegExp(`^-[AI] ${name} (.*)$`, 'gm'));
  return [...rules].map(([, rule = '']) => rule.replace(/-m comment --comment "[^"]*" /, ''));
}

describe('planning for a host that is not looked at', () => {
  test('kube-proxy in iptables mode: its chain, and hooks before everything', () => {
    const state = planOffline(config);
    const reason = 'vipnat read nothing (--offline), and assumes --proxy-mode iptables';
    expect(state.decisions).toMatchObject([{ mode: 'service-chain', isBypass: false, reason }]);
    expect(rulesIn(state, chain)).toEqual(['-j KUBE-SVC-NPX46M4PTMTKRN6Y']);
    expect(rulesIn(state, 'VIPNAT')).toEqual([
      `-d 172.16.64.58/32 -p tcp -m tcp --dport 6443 --tcp-flags FIN,SYN,RST,ACK SYN -j ${chain}`,
    ]);
    for (const hook of ['PREROUTING', 'OUTPUT']) expect(rulesIn(state, hook)).toEqual(['-j VIPNAT']);
    expect(rulesIn(state, 'POSTROUTING')).toEqual(['-j VIPNAT-POSTROUTING']);
    expect(rulesIn(state, 'FORWARD')).toEqual(['-j VIPNAT-FORWARD']);
  });

  test('kube-proxy in ipvs mode: its virtual server at the ClusterIP given', () => {
    const state = planOffline({ ...config, proxyMode: 'ipvs', clusterIps: { ipv4: '10.244.255.1' } });
    expect(state.decisions).toMatchObject([{ mode: 'cluster-ip', clusterIp: '10.244.255.1' }]);
    expect(rulesIn(state, chain)).toEqual(['-p tcp -m tcp -j DNAT --to-destination 10.244.255.1:443']);
  });

  test.each(['nftables', 'none'] as const)('kube-proxy as %s: straight to the apiservers', (proxyMode) => {
    const endpoints = ['172.16.64.11:6443', '172.16.64.12:6443', '[fd00::11]:6443'].map(toEndpoint);
    const state = planOffline({ ...config, proxyMode, endpoints });
    expect(state.decisions).toMatchObject([{ mode: 'direct', backends: endpoints.slice(0, 2) }]);
    const [transaction] = state.plan.transactions;
    const isOwnTable = proxyMode === 'nftables';
    expect(transaction?.dialect).toBe(isOwnTable ? 'nftables' : 'nft');
    expect(rulesIn(state, chain)).toHaveLength(isOwnTable ? 0 : 2);
    expect(transaction?.input).toContain('172.16.64.11');
  });

  test.each<[Partial<Config>, string]>([
    [{ mode: 'direct' }, '--mode random '],
    [{ method: 'lc' }, '--mode random '],
    [{ method: 'rr', proxyMode: 'ipvs' }, '--mode nth '],
    [{ method: 'hash' }, '--cluster-total-nodes 2 '],
    [{ method: 'rr', iptables: 'none' }, ' numgen inc mod 2 '],
    [{ method: 'hash', proxyMode: 'nftables' }, ' jhash ip saddr mod 2 '],
  ])('a forced way or a method comes before what kube-proxy does: %j', (parts, rule) => {
    const endpoints = ['172.16.64.11:6443', '172.16.64.12:6443'].map(toEndpoint);
    const { decisions, plan } = planOffline({ ...config, ...parts, endpoints });
    expect(decisions).toMatchObject([{ mode: 'direct' }]);
    expect(plan.transactions[0]?.input).toContain(rule);
  });
});

test('a way is named so that a change of it can be told: direct with its apiservers', () => {
  expect(describeMode(direct)).toBe('direct to [fd00::11]:6443');
  expect(describeMode({ ...direct, mode: 'service-chain' })).toBe('service-chain');
});
