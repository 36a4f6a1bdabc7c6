import { type Steps, testSteps, toChecks } from '../steps.ts';
import {
  type NodeStatus,
  type Renewal,
  NodeReporter,
  ApiVips,
  LeaseValidity,
} from '../../../balancer/report.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { LeaseApi, type Trip } from '../../support/fakes/lease-api.ts';
import { createRecordingLogger } from '../../support/fakes/logger.ts';
import { describe, test, expect } from '@jest/globals';
import { type ReportedKind, toAnnotations } from '../../../lib/api/node.ts';
import type { BalancerKernel } from '../../../lib/kernel/kernel.ts';

const detail: NodeStatus = { programmed: { services: '10' }, seats: [], mode: 'direct', inUse: [] };

function startReporter() {
  const clock = new FakeClock();
  const api = new LeaseApi(clock);
  const logger = createRecordingLogger();
  const renewals: Renewal[] = [];
  const way: { trip: Trip } = { trip: { thereMs: 1, backMs: 1 } };
  const reporter = new NodeReporter({
    ...{ client: api.connect(() => way.trip), clock, node: 'w1', namespace: 'vipnat-system' },
    ...{ onRenewed: (renewal) => renewals.push(renewal), logger },
  });
  const listTold = () => logger.lines.map(({ level, message }) => `${level}: ${message.split('.', 1)[0]}`);
  return { clock, api, logger, listTold, renewals, way, reporter };
}

test('a Lease counts for 40 s from when its renewal began, and no longer', () => {
  const clock = new FakeClock();
  const isLivingAfter = (ms: number) => {
    const validity = new LeaseValidity({ clock, node: 'w1', onNeeded: () => undefined });
    validity.renewed({ begunMs: clock.now() - ms, text: '' });
    return validity.isLiving;
  };
  expect([39_999, 40_000].map(isLivingAfter)).toEqual([true, false]);
});

describe('a node', () => {
  test('says nothing before it has anything to say, and then makes its Lease', async () => {
    const { clock, api, reporter } = startReporter();
    await clock.advance(60_000);
    expect(api.writes).toBe(0);
    reporter.report(detail);
    await clock.advance(100);
    expect(api.annotations).toEqual(toAnnotations({ ...detail, node: 'w1' }));
    expect(api.spec).toEqual({
      holderIdentity: 'w1',
      leaseDurationSeconds: 40,
      renewTime: expect.stringMatching(/^2026-01-01T00:01:00\.\d{6}Z$/),
    });
  });

  test('that is to renew before it has anything to say keeps what a former life has said, and tries until it is done', async () => {
    const { clock, api, logger, listTold, renewals, way, reporter } = startReporter();
    reporter.report({ ...detail, seats: ['default/0'] });
    await clock.advance(100);
    const next = new NodeReporter({
      ...{ client: api.connect(() => way.trip), clock, logger, node: 'w1', namespace: 'vipnat-system' },
      onRenewed: (renewal) => renewals.push(renewal),
    });
    way.trip = { thereMs: 1e9, backMs: null };
    next.renew();
    await clock.advance(5000);
    way.trip = { thereMs: 1, backMs: 1 };
    await clock.advance(9000);
    expect(listTold()).toEqual(['warn: no answer', 'info: the API takes what this node says again']);
    expect(api.annotations['vipnat.io/seats']).toBe('["default/0"]');
    expect(api.spec?.['renewTime']).toBe(renewals.at(-1)?.text);
    expect(renewals.at(-1)?.begunMs).toBeGreaterThan(5000);
  });

  test('that goes back a version takes back what only the later one has said, and nothing of others', async () => {
    const { clock, api, logger, way, reporter } = startReporter();
    reporter.report(detail);
    await clock.advance(100);
    await reporter.stop();
    api.annotate({ 'vipnat.io/word-of-a-later-version': '["w2"]', 'example.org/is': 'kept' });
    const older = new NodeReporter({
      ...{ client: api.connect(() => way.trip), clock, logger, node: 'w1', namespace: 'vipnat-system' },
      onRenewed: () => undefined,
    });
    older.renew();
    await clock.advance(1000);
    // It has said nothing yet: the former life's word counts.
    expect(api.annotations).toHaveProperty(['vipnat.io/word-of-a-later-version'], '["w2"]');
    older.report(detail);
    await clock.advance(1000);
    expect(api.annotations).toEqual({
      ...toAnnotations({ ...detail, node: 'w1' }),
      'example.org/is': 'kept',
    });
  });
});

/** `services=11 seats=default/0`: what a node reports, where it is not as usual. */
function readReport(text: string): NodeStatus {
  const pairs = text.split(' ').flatMap((one) => (one === '' ? [] : [one.split('=') as [string, string]]));
  const kinds = ['services', 'earlyslices', 'virtualips'];
  const programmed = Object.fromEntries(pairs.filter(([name]) => kinds.includes(name)));
  const parts = pairs.flatMap(([name, value]): [string, unknown][] =>
    kinds.includes(name) ? [] : [[name, ['seats', 'inUse'].includes(name) ? [value] : value]],
  );
  const others = Object.fromEntries(parts) as Partial<NodeStatus>;
  return { ...detail, ...others, programmed: { ...detail.programmed, ...programmed } };
}

/** Writes are counted since `mark`: `writes 20 22` is of so many at least, and at most. */
function createSteps(): Steps {
  const { clock, api, listTold, way, reporter } = startReporter();
  let mark = 0;
  const toName = (text: string) => `vipnat.io/${text}`;
  const split = (text: string) => /^(\S+) (.*)$/.exec(text)?.slice(1) ?? [];
  return {
    wait: (ms) => clock.advance(Number(ms)),
    report: (text) => {
      reporter.report(readReport(text));
    },
    drain: (count) => {
      const connections = JSON.parse(count) as number | null;
      const draining = [{ service: 'default/web', endpoint: '10.244.1.2', since: '2026', connections }];
      reporter.report({ ...detail, draining });
    },
    // Ten a second.
    versions: async (text) => {
      const [kind = '', from = '', to = '', ...others] = text.split(' ');
      for (let version = Number(from); version <= Number(to); version += 1) {
        reporter.report(readReport([`${kind}=${version}`, ...others].join(' ')));
        await clock.advance(100);
      }
    },
    flap: async (text) => {
      for (let flap = 0; flap < 20; flap += 1) {
        reporter.report(flap % 2 === 0 ? detail : readReport(text));
        await clock.advance(50);
      }
    },
    await: (what) => {
      const [kind = '', from = 0, to = from] = what.split(/[= ]/);
      for (let version = Number(from); version <= Number(to); version += 1)
        reporter.setAwaited([{ kind: kind as ReportedKind, version: `${version}` }]);
    },
    // Ten a second, of one VirtualIP that gets none of what it waits for.
    vain: async (text) => {
      const [from = 0, to = from] = text.split(' ').map(Number);
      for (let version = from; version <= to; version += 1) {
        reporter.setAwaited([{ kind: 'services', version: `${version}`, object: 'ip' }]);
        reporter.report(readReport(`services=${version}`));
        await clock.advance(100);
      }
    },
    lose: () => (way.trip = { thereMs: 1e9, backMs: null }),
    find: () => (way.trip = { thereMs: 1, backMs: 1 }),
    touch: api.touch.bind(api),
    remove: api.remove.bind(api),
    stop: async () => {
      const ended = reporter.stop();
      await clock.advance(100);
      await ended;
    },
    mark: () => (mark = api.writes),
    writes: (counts) => {
      const [from = 0, to = from] = counts.split(' ').map(Number);
      const found = api.writes - mark;
      expect({ found, isSo: found >= from && found <= to }).toEqual({ found, isSo: true });
    },
    ...toChecks({
      is: (text) => {
        const [name = '', value] = split(text);
        return [api.annotations[toName(name)], value];
      },
      has: (text) => {
        const [name = '', value = ''] = split(text);
        return [api.annotations[toName(name)], expect.stringContaining(value)];
      },
      all: (text) => [api.annotations, toAnnotations({ ...readReport(text), node: 'w1' })],
      told: (text) => [listTold().join(', ') || '-', text],
      pending: (count) => [clock.pending, Number(count)],
    }),
  };
}

const toNews = (news: string): [string, string] => [
  `says at once what the controller cannot know otherwise, but not more often than it may: ${news}`,
  `report; wait 5000; report ${news}; wait 10; all ${news}; flap ${news}; writes 0 4`,
];

describe('a node', () => {
  testSteps(createSteps, {
    'says at once what is left of a drain, and with the next renewal that there is one':
      'report; wait 100; mark; drain null; drain 0; wait 2000; writes 0; drain 7; wait 1000; writes 1; ' +
      'has draining "connections":7; report; wait 1000; is draining []',
    'renews it each 10 s, with all that it has programmed by then':
      'report; wait 100; versions services 11 499; writes 5; wait 10000; is programmed {"services":"499"}',
    'says what it has programmed twice a second while addresses wait for it, and no more often':
      'report; wait 5000; await services 11 110; versions services 11 110; writes 20 22; versions services 111 200; writes 20 23',
    'hastens few reports for a VirtualIP that waits in vain and changes, 2 a minute from then on':
      'report; wait 5000; mark; vain 11 610; writes 7 12; mark; vain 611 1810; writes 14 18; ' +
      'await services=1810; wait 10000; mark; vain 1811 1830; writes 3 5',
    'says at once which early EndpointSlices it has while a pod ends, also when the pod is gone by then':
      'report earlyslices=10; wait 5000; await earlyslices=11; report earlyslices=11; wait 10; ' +
      'has programmed "earlyslices":"11"; mark; versions services 11 19 earlyslices=11; writes 0; ' +
      'await earlyslices=12; report earlyslices=12; wait 500; writes 1; report earlyslices=13; wait 5000; writes 1',
    'writes no more than usual for a gate that waits for others, when it has said what that waits for':
      'report earlyslices=12; wait 5000; await earlyslices=12; await earlyslices=14; mark; ' +
      'versions services 11 6010 earlyslices=12; writes 59 61; wait 5000; mark; report earlyslices=14; wait 100; writes 1',
    // What moves on with what is programmed waits for the next renewal, as that does.
    'says at once that addresses are on an interface which were not, and nothing of it otherwise':
      'report virtualips=10 announced=10; wait 100; mark; report virtualips=11 announced=11; wait 5000; writes 0; ' +
      'await virtualips=12; report virtualips=12 announced=11; wait 2100; writes 1; ' +
      'report virtualips=12 announced=12; wait 100; writes 2; is announced 12',
    ...Object.fromEntries(['seats=default/0', 'mode=none', 'inUse=10.0.9.9'].map(toNews)),
    'goes on when somebody else has written its Lease, or deleted it':
      'report; wait 100; touch; report seats=default/0; wait 1000; is seats ["default/0"]; remove; wait 11000; ' +
      'is seats ["default/0"]; told -',
    'goes on while the API is away, asks it less and less often, and says all once it is back':
      'report; wait 100; lose; wait 600000; report services=77; wait 1000; told warn: no answer; writes 1; find; ' +
      'wait 13000; told warn: no answer, info: the API takes what this node says again; ' +
      'is programmed {"services":"77"}',
    'that stops keeps its Lease as it is':
      'report; wait 100; stop; is mode direct; wait 60000; writes 1; pending 0',
  });
});

// As iptables-nft-save 1.8.7 prints it on a master; the second rule of FORWARD is another program's.
const filter = `*filter
:FORWARD DROP [0:0]
:VIPNAT-FORWARD - [0:0]
-A FORWARD -m comment --comment "vipnat:Z5IpC-_QfKTeC-MZ" -j VIPNAT-FORWARD
-A FORWARD -p tcp -m conntrack --ctstate DNAT --ctorigdst 10.77.0.99 --ctorigdstport 6443 -j ACCEPT
-A VIPNAT-FORWARD -p tcp -m comment --comment "vipnat:J-tU-L9tvN28JZQP" -m conntrack --ctstate DNAT --ctorigdst 10.77.0.50 --ctorigdstport 6443 -j ACCEPT
COMMIT
`;

// As nft 1.0.6 prints it: the rules of the agent's table that name a virtual IP.
const table = `table ip6 vipnat {
	chain VIPNAT-715634d42e {
	}

	chain prerouting {
		type nat hook prerouting priority -105; policy accept;
		ip6 daddr fd00:77::50 tcp dport 6443 jump VIPNAT-715634d42e
	}
}
`;

function begin() {
  const state = { filter, tables: table, isFailing: false, changes: 0 };
  const kernel: Pick<BalancerKernel, 'readFilter' | 'readHandles' | 'listOwnTable'> = {
    readFilter: (family, dialect) => {
      if (state.isFailing) return Promise.reject(new Error('no tool'));
      const isThere = family === 'ipv4' && dialect === 'nft';
      return Promise.resolve(isThere ? { family, dialect, text: state.filter } : null);
    },
    readHandles: () => Promise.resolve({ ipv4: null, ipv6: state.tables === '' ? null : 7 }),
    listOwnTable: () => Promise.resolve(state.tables),
  };
  const vips = new ApiVips(kernel as BalancerKernel, () => {
    state.changes += 1;
  });
  return { state, vips, read: () => vips.kernel.readFilter('ipv4', 'nft', ['FORWARD']) };
}

test('virtual IPs of the API are those that rules of the agent name, in iptables and in nftables', async () => {
  const { state, vips, read } = begin();
  expect(vips.addresses).toEqual([]);
  expect(await read()).toEqual({ family: 'ipv4', dialect: 'nft', text: filter });
  expect(vips.addresses).toEqual(['10.77.0.50', 'fd00:77::50']);
  const { changes } = state;
  await read();
  expect([changes, state.changes]).toEqual([2, 2]);
});

test('they are known while nothing can be read, and go with the rules', async () => {
  const { state, vips, read } = begin();
  await read();
  state.isFailing = true;
  await expect(read()).rejects.toThrow('no tool');
  expect(vips.addresses).toHaveLength(2);
  state.isFailing = false;
  [state.filter, state.tables] = ['*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n', ''];
  await read();
  expect(vips.addresses).toEqual([]);
});
