import { direct, toEndpoint } from '../../../support/fakes/endpoints.ts';
import type { Health } from '../../../../agent/health/usable.ts';
import { canServe, decide, isAgreeing, planOffline, describeMode } from '../../../../agent/decide/mode.ts';
import { describe, test, expect, jest } from '@jest/globals';
import type { VipFacts, Decision } from '../../../../agent/decide/decision.ts';
import { lookUp, type Row, table, type Outcome, toOutcome, isBypass } from './table.ts';
import { listFacts } from './every-facts.ts';
import { vipChainName } from '../../../../lib/dialect.ts';
import type { Config } from '../../../../config/options.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';

const vip = toEndpoint('10.0.0.50:6443');
const own = '10.0.0.11:6443';
const others = ['10.0.0.12:6443', '10.0.0.13:6443'] as const;
const all = [own, ...others];

const ready: Health = { state: 'ready', reason: '', staleConnections: 'none' };
const refusing: Health = { state: 'dead', reason: 'refused', staleConnections: 'none' };
const unresponsive: Health = { state: 'dead', reason: 'no answer', staleConnections: 'half-open' };
const unheard: Health = { state: 'ready', reason: '', staleConnections: 'none', isUnresponsive: true };
const lost: Health = { ...unresponsive, isLost: true };
const longUnheard: Health = { ...unheard, isLost: true };

interface Case {
  readonly backends?: readonly string[];
  readonly health: Readonly<Record<string, Health>>;
  readonly local?: string;
  readonly isListening?: boolean;
  readonly isLeaving?: boolean;
}

const judge = ({ backends = all, health, local = '10.0.0.11', isListening = true, isLeaving }: Case) =>
  canServe({
    decisions: [{ vip, backends: backends.map((text) => toEndpoint(text)) }],
    addresses: [{ family: 'ipv4', address: local, device: 'eth0' }],
    health: new Map(Object.entries(health)),
    isListening: () => isListening,
    isLeaving: isLeaving ?? false,
  });

describe('a node may hold the VIP', () => {
  test.each<[string, Case]>([
    ['while all is well', { health: { [own]: ready, [others[0]]: ready, [others[1]]: ready } }],
    ['before anybody was probed', { health: {} }],
    [
      'when its own apiserver is dead',
      { health: { [own]: refusing, [others[0]]: ready, [others[1]]: ready } },
    ],
    [
      'when only one apiserver lives',
      { health: { [own]: refusing, [others[0]]: unresponsive, [others[1]]: ready } },
    ],
    ['when only its own lives', { health: { [own]: ready, [others[0]]: lost, [others[1]]: lost } }],
    [
      'when only its own lives, and nobody else is heard',
      { health: { [own]: ready, [others[0]]: longUnheard, [others[1]]: longUnheard } },
    ],
    [
      'when its own is dead, and nobody else is heard for a moment',
      { health: { [own]: refusing, [others[0]]: unheard, [others[1]]: unresponsive } },
    ],
    [
      'when all refuse: nobody would do better',
      { health: { [own]: refusing, [others[0]]: refusing, [others[1]]: refusing } },
    ],
    ['when its own is the only one and dead', { backends: [own], health: { [own]: refusing } }],
    [
      'when nothing is balanced and its own apiserver lives',
      { backends: [], health: { [own]: ready, [others[0]]: ready } },
    ],
    ['when nothing is balanced and no apiserver is known', { backends: [], health: {} }],
    [
      'when nothing is known and nobody listens: another node does no better',
      { backends: [], health: {}, isListening: false },
    ],
    [
      'when nobody listens on the VIP’s port, but it is balanced over its own apiserver',
      { backends: [own], health: { [own]: ready, [others[0]]: ready }, isListening: false },
    ],
    [
      'when nothing is balanced, nobody listens and all others refuse',
      { backends: [], health: { [own]: ready, [others[0]]: refusing }, isListening: false },
    ],
  ])('%s', (_, given) => {
    expect(judge(given)).toBe(true);
  });
});

describe('a node is to leave the VIP', () => {
  test.each<[string, Case]>([
    [
      'when nothing is balanced, its own apiserver lives and nobody listens on the VIP’s port',
      { backends: [], health: { [own]: ready, [others[0]]: ready }, isListening: false },
    ],
    [
      'when nothing is balanced, its own apiserver is dead and another lives',
      { backends: [], health: { [own]: refusing, [others[0]]: ready } },
    ],
    [
      'when nothing is balanced and it has no apiserver of its own',
      { backends: [], health: { [own]: ready, [others[0]]: ready }, local: '10.0.0.99' },
    ],
    [
      'when its own is dead and no answer comes from the others, which may serve elsewhere',
      { health: { [own]: refusing, [others[0]]: longUnheard, [others[1]]: longUnheard } },
    ],
    [
      'when its own is dead and no other host is heard, which is this side’s fault',
      { health: { [own]: refusing, [others[0]]: lost, [others[1]]: lost } },
    ],
  ])('%s', (_, given) => {
    expect(judge(given)).toBe(false);
  });
});

const drained: Health = { state: 'draining', reason: '', staleConnections: 'none', isDrained: true };

test.each<[string, Health, boolean]>([
  ['is ready', ready, false],
  ['is warming', { ...ready, state: 'warming' }, false],
  ['is drained too', drained, true],
  ['refuses connections', refusing, true],
  ['is not heard, as no other is', unheard, true],
])(
  'a drained node that holds the VIP, while the only other apiserver %s: may it? (%#)',
  (_, other, mayHold) => {
    const health = { [own]: drained, [others[0]]: other };
    expect(judge({ health, isLeaving: true })).toBe(mayHold);
    // Without the drain it may, whatever the other is like.
    expect(judge({ health })).toBe(true);
  },
);

test('of two VIPs one that is served is enough: all move together', () => {
  const health = new Map([
    [own, refusing],
    [others[0], ready],
  ]);
  const served = { vip: toEndpoint('[fd00::50]:6443'), backends: [toEndpoint('[fd00::12]:6443')] };
  const notServed = { vip, backends: [] };
  const addresses = [{ family: 'ipv4', address: '10.0.0.11', device: 'eth0' }] as const;
  expect(canServe({ decisions: [notServed], addresses, health, isListening: () => true })).toBe(false);
  expect(canServe({ decisions: [notServed, served], addresses, health, isListening: () => true })).toBe(true);
});

// A million decisions take seconds; on a busy machine, several times that.
jest.setTimeout(300_000);
const three = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'].map(toEndpoint);
const two = three.slice(0, 2);
const path = { clusterIp: '10.96.0.1', backends: three, seenIn: 'nat KUBE-SERVICES (iptables-nft)' };
const loop = { ...path, backends: [vip], loop: vip };

const iptables: VipFacts = {
  vip,
  mode: 'auto',
  proxyMode: { value: 'iptables', seenIn: 'asked' },
  serviceChain: path,
  virtualServer: null,
  closedSwitch: null,
  serviceChainProblem: null,
  virtualServerProblem: null,
  unwanted: null,
  usable: { value: three, seenIn: 'kube-proxy', isFailOpen: false },
  affinitySeconds: null,
  apiSource: null,
  agreedSyncs: 1,
  wasBypassing: false,
};
const ipvs: VipFacts = {
  ...iptables,
  proxyMode: { value: 'ipvs', seenIn: 'asked' },
  serviceChain: null,
  virtualServer: path,
};
const unwanted = { value: '-j REJECT', seenIn: 'filter KUBE-SERVICES' };
const onlyTwo = { value: two, seenIn: 'probes', isFailOpen: false };
const nobody = { value: [], seenIn: 'nowhere', isFailOpen: false };
const forced: VipFacts = { ...iptables, mode: 'service-chain' };

/** An example: when, the facts, and the way. The table has to agree with it, so that a row can be wrong in neither. */
type Example = readonly [when: string, facts: VipFacts, mode: Decision['mode']];

const automatic: readonly Example[] = [
  ['kube-proxy in iptables mode has the usable apiservers', iptables, 'service-chain'],
  ['kube-proxy in ipvs mode has the usable apiservers', ipvs, 'cluster-ip'],
  ['kube-proxy lists an apiserver that is not usable', { ...iptables, usable: onlyTwo }, 'direct'],
  [
    'kube-proxy lacks an apiserver that is usable',
    { ...ipvs, virtualServer: { ...path, backends: two } },
    'direct',
  ],
  ['the live edge is gone', { ...iptables, serviceChain: null }, 'direct'],
  ['the virtual server is gone', { ...ipvs, virtualServer: null }, 'direct'],
  [
    'a virtual server is left over in iptables mode',
    { ...iptables, serviceChain: null, virtualServer: path },
    'direct',
  ],
  ['kube-proxy wants its chain gone', { ...iptables, unwanted }, 'direct'],
  [
    'kube-proxy runs in nftables mode',
    { ...iptables, proxyMode: { value: 'nftables', seenIn: 'asked' } },
    'direct',
  ],
  [
    'there is no kube-proxy',
    { ...iptables, serviceChain: null, proxyMode: { value: 'none', seenIn: 'nothing' } },
    'direct',
  ],
  ['the bypass was left for one look only', { ...iptables, wasBypassing: true }, 'direct'],
  ['no apiserver is known', { ...iptables, usable: nobody }, 'passthrough'],
  ['this host does not forward', { ...iptables, closedSwitch: 'net.ipv4.ip_forward' }, 'passthrough'],
];

const asked: readonly Example[] = [
  ['service-chain is asked for', forced, 'service-chain'],
  ['service-chain is asked for, and its live edge is gone', { ...forced, serviceChain: null }, 'passthrough'],
  ['service-chain is asked for, and kube-proxy wants it gone', { ...forced, unwanted }, 'passthrough'],
  ['service-chain is asked for, and leads to the VIP', { ...forced, serviceChain: loop }, 'passthrough'],
  ['cluster-ip is asked for', { ...ipvs, mode: 'cluster-ip' }, 'cluster-ip'],
  ['cluster-ip is asked for without a virtual server', { ...iptables, mode: 'cluster-ip' }, 'passthrough'],
  [
    'cluster-ip is asked for, and leads to the VIP',
    { ...ipvs, mode: 'cluster-ip', virtualServer: loop },
    'passthrough',
  ],
  ['direct is asked for beside a kube-proxy', { ...iptables, mode: 'direct' }, 'direct'],
  [
    'direct is asked for, and nobody is known',
    { ...iptables, mode: 'direct', usable: nobody },
    'passthrough',
  ],
];

describe('the table of ways', () => {
  describe.each([
    ['auto', automatic],
    ['a forced way', asked],
  ])('%s', (_kind, examples) => {
    test.each(examples)('when %s', (_when, facts, mode) => {
      expect(decide(facts).mode).toBe(mode);
      expect(lookUp(facts).outcome.mode).toBe(mode);
    });
  });

  test('whatever the facts, decide() is the first row of the table that holds, always the same, and never in the way of kube-proxy (I3, I11)', () => {
    const rowToCount = new Map<Row, number>(table.map((row) => [row, 0]));
    let count = 0;
    for (const facts of listFacts()) {
      count += 1;
      const { row, outcome } = lookUp(facts);
      rowToCount.set(row, (rowToCount.get(row) ?? 0) + 1);
      const complaint = findComplaint(facts, outcome);
      if (complaint !== null) {
        throw new Error(`${complaint}; the row is: ${row.when}: ${JSON.stringify(facts)}`);
      }
    }
    expect(count).toBe(1_393_920);
    expect([...rowToCount].filter(([, times]) => times === 0)).toEqual([]);
  });
});

test('when no apiserver answers, all are kept, and kube-proxy may delete its chain', () => {
  const usable = { value: three, seenIn: 'kube-proxy', isFailOpen: true };
  expect(decide({ ...iptables, usable })).toMatchObject({ mode: 'direct', isBypass: true, backends: three });
});

describe('the bypass', () => {
  const bypassing = { ...iptables, wasBypassing: true };

  test('is entered at once', () => {
    const decision = decide({ ...iptables, usable: onlyTwo, agreedSyncs: 0 });
    expect(decision).toMatchObject({ mode: 'direct', isBypass: true, backends: two });
  });

  test('is left after two equal looks', () => {
    expect(decide({ ...bypassing, agreedSyncs: 1 })).toMatchObject({ mode: 'direct', isBypass: true });
    expect(decide({ ...bypassing, agreedSyncs: 2 })).toMatchObject({
      mode: 'service-chain',
      isBypass: false,
    });
  });

  test('counts a look as equal only in the mode that kube-proxy runs in', () => {
    expect(isAgreeing(iptables)).toBe(true);
    expect(isAgreeing({ ...ipvs, virtualServer: null, serviceChain: path })).toBe(false);
    expect(isAgreeing({ ...iptables, usable: onlyTwo })).toBe(false);
  });
});

test('a forced way is that way even if kube-proxy disagrees with us', () => {
  expect(decide({ ...forced, usable: onlyTwo })).toMatchObject({ mode: 'service-chain', backends: three });
});

test('passthrough names no backends, and every decision has a reason', () => {
  const usable = { ...nobody, seenIn: 'nothing was found' };
  const decision = decide({ ...iptables, usable });
  expect(decision.backends).toEqual([]);
  expect(decision.reason).toContain('nothing was found');
});

function findComplaint(facts: VipFacts, wanted: Outcome): string | null {
  const decision = decide(facts);
  const found = toOutcome(decision);
  if (found.mode !== wanted.mode) return `goes ${found.mode}, not ${wanted.mode}`;
  if (found.backends !== wanted.backends) return `to ${found.backends}, not to ${wanted.backends}`;
  if (decision.isBypass !== isBypass(facts)) return `isBypass is ${String(decision.isBypass)}`;
  return findFault(facts, decision);
}

/** What is wrong with a decision, whatever the table says. */
function findFault(facts: VipFacts, decision: Decision): string | null {
  const { mode, reason, clusterIp } = decision;
  if (reason === '') return 'has no reason';
  if (mode === 'cluster-ip' && clusterIp === null) return 'has no ClusterIP to go to';
  // A jump into a chain that kube-proxy wants gone, or that is not there, would pin it.
  if (mode === 'service-chain' && (facts.unwanted !== null || facts.serviceChain === null)) {
    return 'pins a chain (I11)';
  }
  const again = decide(facts);
  const isSame = again.reason === reason && toOutcome(again).backends === toOutcome(decision).backends;
  return isSame ? null : 'is another one the second time (I3)';
}

const offlineVip = toEndpoint('172.16.64.58:6443');
const chain = vipChainName(offlineVip);
const config: Config = { ...ordinaryConfig, vips: [offlineVip], proxyMode: 'iptables' };

/** The rules of a chain in a script, without their comments. */
function rulesIn(state: ReturnType<typeof planOffline>, name: string): string[] {
  return state.plan.transactions
    .flatMap(({ input }) => input.split('\n'))
    .filter((line) => /^-[AI] /.test(line) && line.split(' ')[1] === name)
    .map((line) =>
      line
        .split(' ')
        .slice(2)
        .join(' ')
        .replace(/-m comment --comment "[^"]*" /, ''),
    );
}

describe('planning for a host that is not looked at', () => {
  test('kube-proxy in iptables mode: its chain, and hooks before everything', () => {
    const state = planOffline(config);
    expect(state.decisions).toMatchObject([{ mode: 'service-chain', isBypass: false }]);
    expect(rulesIn(state, chain)).toEqual(['-j KUBE-SVC-NPX46M4PTMTKRN6Y']);
    expect(rulesIn(state, 'VIPNAT')).toEqual([
      `-d 172.16.64.58/32 -p tcp -m tcp --dport 6443 --tcp-flags FIN,SYN,RST,ACK SYN -j ${chain}`,
    ]);
    expect(rulesIn(state, 'PREROUTING')).toEqual(['-j VIPNAT']);
    expect(rulesIn(state, 'OUTPUT')).toEqual(['-j VIPNAT']);
    expect(rulesIn(state, 'POSTROUTING')).toEqual(['-j VIPNAT-POSTROUTING']);
    expect(rulesIn(state, 'FORWARD')).toEqual(['-j VIPNAT-FORWARD']);
  });

  test('kube-proxy in ipvs mode: its virtual server at the ClusterIP given', () => {
    const state = planOffline({ ...config, proxyMode: 'ipvs', clusterIps: { ipv4: '10.244.255.1' } });
    expect(state.decisions).toMatchObject([{ mode: 'cluster-ip', clusterIp: '10.244.255.1' }]);
    expect(rulesIn(state, chain)).toEqual(['-p tcp -m tcp -j DNAT --to-destination 10.244.255.1:443']);
  });

  test.each(['nftables', 'none'] as const)(
    'kube-proxy as %s says: straight to the apiservers given',
    (proxyMode) => {
      const endpoints = ['172.16.64.11:6443', '172.16.64.12:6443', '[fd00::11]:6443'].map(toEndpoint);
      const state = planOffline({ ...config, proxyMode, endpoints });
      expect(state.decisions).toMatchObject([{ mode: 'direct', backends: endpoints.slice(0, 2) }]);
      const [transaction] = state.plan.transactions;
      const isOwnTable = proxyMode === 'nftables';
      expect(transaction?.dialect).toBe(isOwnTable ? 'nftables' : 'nft');
      expect(rulesIn(state, chain)).toHaveLength(isOwnTable ? 0 : 2);
      expect(transaction?.input).toContain('172.16.64.11');
    },
  );

  test('a forced way comes before what kube-proxy does', () => {
    const endpoints = [toEndpoint('172.16.64.11:6443')];
    expect(planOffline({ ...config, mode: 'direct', endpoints }).decisions[0]?.mode).toBe('direct');
  });

  test('each family of the VIPs gets its transaction, in the backend asked for', () => {
    const vips = [offlineVip, toEndpoint('[fd00::50]:6443')];
    const targets = (wanted: Config) =>
      planOffline(wanted).plan.transactions.map(({ family, dialect }) => `${family} ${dialect}`);
    expect(targets({ ...config, vips })).toEqual(['ipv4 nft', 'ipv6 nft']);
    expect(targets({ ...config, vips, iptables: 'legacy' })).toEqual(['ipv4 legacy', 'ipv6 legacy']);
  });

  test('the script is one that the tools take', () => {
    const kernel = new FakeKernel(new FakeClock());
    kernel.run('ipv4', 'nft', '*nat\n:KUBE-SVC-NPX46M4PTMTKRN6Y - [0:0]\nCOMMIT\n');
    const [transaction] = planOffline(config).plan.transactions;
    kernel.run('ipv4', 'nft', transaction?.input ?? '');
    expect(kernel.show('ipv4', 'nft')).toContain(`:${chain} - [0:0]`);
  });

  test('the reason says that nothing was read', () => {
    expect(planOffline(config).decisions[0]?.reason).toBe(
      'vipnat read nothing (--offline), and assumes --proxy-mode iptables',
    );
  });
});

test('a way is named so that a change of it can be told: direct with its apiservers', () => {
  expect(describeMode(direct)).toBe('direct to [fd00::11]:6443');
  expect(describeMode({ ...direct, mode: 'service-chain' })).toBe('service-chain');
});
