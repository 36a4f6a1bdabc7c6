import { describe, expect, jest, test } from '@jest/globals';
import { decide } from '../../../../agent/decide/decide.ts';
import { type Decision, type VipFacts } from '../../../../agent/decide/decision.ts';
import { isAgreeing } from '../../../../agent/decide/proxy-path.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { listFacts } from './every-facts.ts';
import { isBypass, lookUp, type Outcome, type Row, table, toOutcome } from './table.ts';

// A million decisions take seconds; on a busy machine, several times that.
jest.setTimeout(300_000);

const vip = toEndpoint('10.0.0.50:6443');
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
  agreedLooks: 1,
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
type Example = readonly [when: string, facts: VipFacts, way: Decision['way']];

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
    test.each(examples)('when %s', (_when, facts, way) => {
      expect(decide(facts).way).toBe(way);
      expect(lookUp(facts).outcome.way).toBe(way);
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
  expect(decide({ ...iptables, usable })).toMatchObject({ way: 'direct', isBypass: true, backends: three });
});

describe('the bypass', () => {
  const bypassing = { ...iptables, wasBypassing: true };

  test('is entered at once', () => {
    const decision = decide({ ...iptables, usable: onlyTwo, agreedLooks: 0 });
    expect(decision).toMatchObject({ way: 'direct', isBypass: true, backends: two });
  });

  test('is left after two equal looks', () => {
    expect(decide({ ...bypassing, agreedLooks: 1 })).toMatchObject({ way: 'direct', isBypass: true });
    expect(decide({ ...bypassing, agreedLooks: 2 })).toMatchObject({ way: 'service-chain', isBypass: false });
  });

  test('counts a look as equal only in the mode that kube-proxy runs in', () => {
    expect(isAgreeing(iptables)).toBe(true);
    expect(isAgreeing({ ...ipvs, virtualServer: null, serviceChain: path })).toBe(false);
    expect(isAgreeing({ ...iptables, usable: onlyTwo })).toBe(false);
  });
});

test('a forced way is that way even if kube-proxy disagrees with us', () => {
  expect(decide({ ...forced, usable: onlyTwo })).toMatchObject({ way: 'service-chain', backends: three });
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
  if (found.way !== wanted.way) return `goes ${found.way}, not ${wanted.way}`;
  if (found.backends !== wanted.backends) return `to ${found.backends}, not to ${wanted.backends}`;
  if (decision.isBypass !== isBypass(facts)) return `isBypass is ${String(decision.isBypass)}`;
  return findFault(facts, decision);
}

/** What is wrong with a decision, whatever the table says. */
function findFault(facts: VipFacts, decision: Decision): string | null {
  const { way, reason, clusterIp } = decision;
  if (reason === '') return 'has no reason';
  if (way === 'cluster-ip' && clusterIp === null) return 'has no ClusterIP to go to';
  // A jump into a chain that kube-proxy wants gone, or that is not there, would pin it.
  if (way === 'service-chain' && (facts.unwanted !== null || facts.serviceChain === null)) {
    return 'pins a chain (I11)';
  }
  const again = decide(facts);
  const isSame = again.reason === reason && toOutcome(again).backends === toOutcome(decision).backends;
  return isSame ? null : 'is another one the second time (I3)';
}
