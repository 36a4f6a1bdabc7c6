import { type NodeStatus, type Renewal, NodeReporter, ApiVips } from '../../../balancer/report.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { LeaseApi, type Trip } from '../../support/fakes/lease-api.ts';
import { createRecordingLogger } from '../../support/fakes/logger.ts';
import { describe, test, expect } from '@jest/globals';
import { toAnnotations } from '../../../lib/api/node.ts';
import type { BalancerKernel } from '../../../lib/kernel/kernel.ts';

const detail: NodeStatus = { programmed: { services: '10' }, seats: [], mode: 'direct', inUse: [] };
const program = (version: number): NodeStatus => ({ ...detail, programmed: { services: String(version) } });

/** A reporter, and the API that it reports to. */
function startReporter() {
  const clock = new FakeClock();
  const api = new LeaseApi(clock);
  const logger = createRecordingLogger();
  const renewals: Renewal[] = [];
  const way: { trip: Trip } = { trip: { thereMs: 1, backMs: 1 } };
  const reporter = new NodeReporter({
    client: api.connect(() => way.trip),
    clock,
    node: 'w1',
    namespace: 'vipnat-system',
    onRenewed: (renewal) => renewals.push(renewal),
    logger,
  });
  reporter.start();
  const listTold = () => logger.lines.map(({ level, message }) => `${level}: ${message.split('.', 1)[0]}`);
  return { clock, api, logger, listTold, renewals, way, reporter };
}

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
    next.start();
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
    await reporter.stop({ isLeaving: false });
    api.annotate({ 'vipnat.io/word-of-a-later-version': '["w2"]', 'example.org/note': 'kept' });
    const older = new NodeReporter({
      ...{ client: api.connect(() => way.trip), clock, logger, node: 'w1', namespace: 'vipnat-system' },
      onRenewed: () => undefined,
    });
    older.start();
    older.renew();
    await clock.advance(1000);
    // It has said nothing yet: the former life's word counts.
    expect(api.annotations).toHaveProperty(['vipnat.io/word-of-a-later-version'], '["w2"]');
    older.report(detail);
    await clock.advance(1000);
    expect(api.annotations).toEqual({
      ...toAnnotations({ ...detail, node: 'w1' }),
      'example.org/note': 'kept',
    });
  });

  test('says at once what is left of a drain, and with the next renewal that there is one', async () => {
    const { clock, api, reporter } = startReporter();
    const drain = (connections: number | null) => ({
      ...detail,
      draining: [{ service: 'default/web', endpoint: '10.244.1.2', since: '2026', connections }],
    });
    reporter.report(detail);
    await clock.advance(100);
    const before = api.writes;
    for (const count of [null, 0]) reporter.report(drain(count));
    await clock.advance(2000);
    expect(api.writes).toBe(before);
    reporter.report(drain(7));
    await clock.advance(1000);
    expect(api.writes).toBe(before + 1);
    expect(api.annotations['vipnat.io/draining']).toContain('"connections":7');
    reporter.report(detail);
    await clock.advance(1000);
    expect(api.annotations['vipnat.io/draining']).toBe('[]');
  });

  test('renews it each 10 s, with all that it has programmed by then', async () => {
    const { clock, api, reporter } = startReporter();
    reporter.report(detail);
    await clock.advance(100);
    for (let version = 11; version < 500; version += 1) {
      reporter.report(program(version));
      await clock.advance(100);
    }
    expect(api.writes).toBe(5);
    await clock.advance(10_000);
    expect(api.annotations['vipnat.io/programmed']).toBe('{"services":"499"}');
  });

  test('says what it has programmed twice a second while an address waits for it, and no more often', async () => {
    const { clock, api, reporter } = startReporter();
    reporter.report(detail);
    await clock.advance(5000);
    reporter.setAwaited({ any: true, early: false });
    for (let version = 11; version < 111; version += 1) {
      reporter.report(program(version));
      await clock.advance(100);
    }
    expect(api.writes).toBeGreaterThanOrEqual(20);
    expect(api.writes).toBeLessThanOrEqual(22);
    reporter.setAwaited({ any: false, early: false });
    await clock.advance(9000);
    expect(api.writes).toBeLessThanOrEqual(23);
  });

  test('says at once which early EndpointSlices it has while a pod ends, also when the pod is gone by then', async () => {
    const { clock, api, reporter } = startReporter();
    const program = (earlyslices: string, others = '10') => ({
      ...detail,
      programmed: { services: others, earlyslices },
    });
    reporter.report(program('10'));
    await clock.advance(5000);
    reporter.setAwaited({ any: false, early: true });
    reporter.report(program('11'));
    await clock.advance(10);
    expect(JSON.parse(api.annotations['vipnat.io/programmed'] ?? '')).toMatchObject({ earlyslices: '11' });
    const before = api.writes;
    // Other kinds change all the time while a pod ends.
    for (let version = 11; version < 20; version += 1) {
      reporter.report(program('11', String(version)));
      await clock.advance(100);
    }
    expect(api.writes).toBe(before);
    reporter.report(program('12'));
    reporter.setAwaited({ any: false, early: false });
    await clock.advance(500);
    expect(api.writes).toBe(before + 1);
    reporter.report(program('13'));
    await clock.advance(5000);
    expect(api.writes).toBe(before + 1);
  });

  test('says at once that addresses are on an interface which were not, and nothing of it otherwise', async () => {
    const { clock, api, reporter } = startReporter();
    const announce = (announced: string, programmed: string) => ({
      ...detail,
      programmed: { virtualips: programmed },
      announced,
    });
    reporter.report(announce('10', '10'));
    await clock.advance(100);
    const before = api.writes;
    // What moves on with what is programmed waits for the next renewal, as that does.
    reporter.report(announce('11', '11'));
    await clock.advance(5000);
    expect(api.writes).toBe(before);
    reporter.setAwaited({ any: true, early: false });
    reporter.report(announce('11', '12'));
    await clock.advance(100);
    reporter.setAwaited({ any: false, early: false });
    await clock.advance(2000);
    expect(api.writes).toBe(before + 1);
    reporter.report(announce('12', '12'));
    await clock.advance(100);
    expect(api.writes).toBe(before + 2);
    expect(api.annotations['vipnat.io/announced']).toBe('12');
  });

  test.each([{ seats: ['default/0'] }, { mode: 'none' as const }, { inUse: ['10.0.9.9'] }])(
    'says at once what the controller cannot know otherwise: %j',
    async (news) => {
      const { clock, api, reporter } = startReporter();
      reporter.report(detail);
      await clock.advance(5000);
      reporter.report({ ...detail, ...news });
      await clock.advance(10);
      expect(api.annotations).toEqual(toAnnotations({ ...detail, ...news, node: 'w1' }));
      for (let flap = 0; flap < 20; flap += 1) {
        reporter.report(flap % 2 === 0 ? detail : { ...detail, ...news });
        await clock.advance(50);
      }
      expect(api.writes).toBeLessThanOrEqual(4);
    },
  );

  test('goes on when somebody else has written its Lease, or deleted it', async () => {
    const { clock, api, listTold, reporter } = startReporter();
    reporter.report(detail);
    await clock.advance(100);
    api.touch();
    reporter.report({ ...detail, seats: ['default/0'] });
    await clock.advance(1000);
    expect(api.annotations['vipnat.io/seats']).toBe('["default/0"]');
    api.remove();
    await clock.advance(11_000);
    expect(api.annotations['vipnat.io/seats']).toBe('["default/0"]');
    expect(listTold()).toEqual([]);
  });

  test('goes on while the API is away, asks it less and less often, and says all once it is back', async () => {
    const { clock, api, listTold, way, reporter } = startReporter();
    reporter.report(detail);
    await clock.advance(100);
    way.trip = { thereMs: 1e9, backMs: null };
    await clock.advance(600_000);
    reporter.report(program(77));
    await clock.advance(1000);
    expect({ told: listTold(), writes: api.writes }).toEqual({ told: ['warn: no answer'], writes: 1 });
    way.trip = { thereMs: 1, backMs: 1 };
    await clock.advance(13_000);
    expect(listTold()).toEqual(['warn: no answer', 'info: the API takes what this node says again']);
    expect(api.annotations['vipnat.io/programmed']).toBe('{"services":"77"}');
  });

  test.each([
    [false, 'direct'],
    [true, 'none'],
  ])(
    'that stops keeps its Lease, and says before only that it leaves, if it does: %s',
    async (isLeaving, mode) => {
      const { clock, api, reporter } = startReporter();
      reporter.report(detail);
      await clock.advance(100);
      const ended = reporter.stop({ isLeaving });
      await clock.advance(100);
      await ended;
      expect(api.annotations['vipnat.io/mode']).toBe(mode);
      await clock.advance(60_000);
      expect(api.writes).toBe(isLeaving ? 2 : 1);
      expect(clock.pending).toBe(0);
    },
  );
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
