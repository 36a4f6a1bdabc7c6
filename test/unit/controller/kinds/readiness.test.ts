import { describe, test, expect } from '@jest/globals';
import {
  makeVirtualIp,
  makeNode,
  makePool,
  makeService,
  makeReport,
  publish,
  makeCache,
  nowMs,
  toServiceKey,
} from '../../../support/fakes/service-objects.ts';
import { makeSeat } from '../../../support/fakes/seat-objects.ts';
import { finalizer } from '../../../../lib/api/vipnat.ts';
import type { NodeReport } from '../../../../lib/api/node.ts';
import {
  decide,
  getWrite,
  nextStep,
  tell,
  testDecisions,
  type Decision,
} from '../../../support/fakes/service-steps.ts';

const stays = 'PATCH Service apps/a; ingress 10.0.9.10 VIP';
const none = 'PATCH Service apps/a; ingress none';
const published = `${stays}; True Ready; if virtualips/10.0.9.10 is 20; event Normal AddressReady`;
const noAddress = 'event Warning NoAddress';
const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'])];
const nodes = [makeNode('node-1'), makeNode('node-2')];
const has = (status = publish('10.0.9.10')) => [makeService('apps/a', { status })];

describe('an address that nodes cannot hold', () => {
  const why = '10.0.9.10 is in no subnet of this host (it has eth0)';
  /** What `node-1` cannot hold, what others say, and which nodes may hold the seat. */
  const look = (
    unheld: Record<string, string>,
    others: readonly NodeReport[],
    names = ['node-1', 'node-2'],
  ) => ({
    ...{ services: has({}), virtualIps, nodes, reports: [makeReport('node-1', 20, { unheld }), ...others] },
    pools: [
      makePool(
        'pool',
        { addresses: ['10.0.9.10'] },
        { status: { seats: [makeSeat(0, '10.0.9.10', names)] } },
      ),
    ],
  });
  const [seat, unlike] = [{ 'pool/0': why }, { 'pool/1': why, '10.0.9.11': why }];
  const able = makeReport('node-2', 20);
  const refused = `${none}; False CannotBeHeld; ${noAddress}`;
  const nobody = (name: string): Decision => [
    look({ [name]: why }, [makeReport('node-2', 20, { unheld: { [name]: why } })]),
    refused,
    `No node can hold 10.0.9.10. node-1: ${why}, node-2: ${why}."`,
  ];

  testDecisions({
    'is not published, by what nodes say of its seat': nobody('pool/0'),
    'is not published, by what nodes say of it': nobody('10.0.9.10'),
    'is published where one of them can': [look(seat, [able]), published],
    'is published where what they cannot hold is another': [look(unlike, []), published],
    'is not published where the one that could may not hold it': [look(seat, [able], ['node-1']), refused],
    'and is published stays so, and the condition says it': [
      { ...look(seat, []), services: has() },
      `${stays}; False CannotBeHeld; ${noAddress}`,
    ],
  });
});

describe('an address whose VirtualIP names a pool that does not exist', () => {
  const world = (status = {}) => ({
    services: [makeService('apps/a', { status, spec: { loadBalancerIP: '10.0.9.10' } })],
    virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'], { spec: { pool: 'typo' } })],
    reports: [makeReport('node-1', 20)],
  });
  const why = 'No node answers for 10.0.9.10: its AddressPool typo does not exist.';

  testDecisions({
    'stays published, is not ready, and an event says it': [
      world(publish('10.0.9.10')),
      `${stays}; False PoolGone; ${noAddress}`,
      `"reason":"NoAddress","message":"${why}"`,
    ],
    'is said to lack its pool when asked for': [world(), `${none}; False PoolGone; ${noAddress}`, why],
  });
});

describe('an address that nodes have programmed', () => {
  const other = makeReport('node-2', 30, { seats: [] });
  const older = ({ announced, ...report }: NodeReport) => (announced === undefined ? report : report);
  const written = published.replace('is 20', 'is 21');

  /** What is next so long after it was programmed, in version 20; the status was written in version 21. */
  const look = (afterMs: number, reports: readonly NodeReport[]) => {
    const pools = [makePool('pool', { addresses: ['10.0.9.10'] })];
    const store = makeCache({ pools, nodes, services: has({}), reports });
    const [before, after] = [20, 21].map((version) =>
      makeVirtualIp('10.0.9.10', ['apps/a'], { metadata: { resourceVersion: String(version) } }),
    );
    store.take('virtualIps', { key: '10.0.9.10', after: before ?? null });
    store.view(nowMs - afterMs);
    store.take('virtualIps', { key: '10.0.9.10', after: after ?? null });
    return nextStep(toServiceKey('apps/a'), store.view(nowMs));
  };

  test('is published once an interface of the node that holds it has it', () => {
    const announce = (announced: string) =>
      tell(look(1000, [makeReport('node-1', 30, { announced }), other]));
    expect([announce('19'), announce('20')]).toEqual(['wait nodes 4000', written]);
  });

  const held = 'node-1 holds the seat pool/0, and';
  const why = '10.0.9.10 is in no subnet';

  test.each([
    [{ announced: '19' }, 'NotAnnounced', `${held} no interface there has the address yet`],
    [{ unheld: { '10.0.9.10': why } }, 'NotAnnounced', `${held} cannot hold the address: ${why}`],
    [{ seats: [] }, 'NoSeatHolder', 'no living node says that it holds the seat pool/0'],
  ])('is never published where the holder says %j: %s', (said, reason, clause) => {
    const step = look(3_600_000, [makeReport('node-1', 30, said), other]);
    expect(tell(step)).toBe(`${none}; False ${reason}; ${noAddress}`);
    expect(JSON.stringify(step)).toContain(`"message":"10.0.9.10: ${clause}."`);
  });

  test.each([[['pool/0']], [[]]])('is published after ten seconds of an older balancer: %j', (seats) => {
    const after = (ms: number) => tell(look(ms, [older(makeReport('node-1', 30, { seats })), other]));
    expect([after(4000), after(10_000)]).toEqual(['wait nodes 1000', written]);
    expect(after(9000)).toContain('ingress none');
  });
});

describe('an address that is published, and that nobody holds', () => {
  const type = 'vipnat.io/AddressReady';
  const lost = '10.0.9.10: no living node says that it holds the seat pool/0.';
  const told = { type, status: 'False', reason: 'NoSeatHolder', message: lost };
  const ready = {
    ...{ type, status: 'True', reason: 'Ready' },
    message: '10.0.9.10: all nodes of the pool serve it.',
  };
  const look = (reason: string, ms: number, seats: string[] = [], ...conditions: object[]) => {
    const lastTransitionTime = new Date(nowMs - ms).toISOString();
    const programmed = { type: 'Programmed', status: 'True', observedGeneration: 1 };
    const announced = { type: 'Announced', status: 'False', reason, lastTransitionTime };
    const status = { conditions: [programmed, announced] };
    return {
      services: has(conditions.length === 0 ? publish('10.0.9.10') : { ...publish('10.0.9.10'), conditions }),
      virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'], { status })],
      reports: [makeReport('node-1', 20, { seats })],
    };
  };
  const unheld = { '10.0.9.10': '10.0.9.10 is in no subnet' };
  const gone = 'NoSeatHolder';

  testDecisions({
    'stays published, and is not ready when that has lasted for ten seconds': [
      look(gone, 10_000),
      `${stays}; False NoSeatHolder; ${noAddress}; later`,
      `"reason":"NoAddress","message":"${lost}"`,
    ],
    'is looked at again when a seat has had time to move': [look(gone, 4000, [], ready), 'wait nodes 6000'],
    'is well where two hold it for a moment': [look('SeveralSeatHolders', 60_000, [], ready), 'nothing'],
    'is well before its VirtualIP says that one holds it': [look(gone, 60_000, ['pool/0'], ready), 'nothing'],
    'is not ready either where the node that holds the seat cannot hold it, and others could': [
      {
        ...{ services: has(), virtualIps, nodes },
        reports: [makeReport('node-1', 20, { unheld }), makeReport('node-2', 20, { seats: [] })],
      },
      `${stays}; False NotAnnounced; ${noAddress}`,
      '10.0.9.10: node-1 holds the seat pool/0, and cannot hold the address: 10.0.9.10 is in no subnet."',
    ],
    'is ready when one has it again': [look(gone, 60_000, ['pool/0'], told), `${stays}; True Ready; later`],
  });
});

describe('an address for which another host answers', () => {
  /** How that was said of it, so long ago; and what its Service says and asks for. */
  const look = (status: 'True' | 'False', ms: number, service: object = { status: { conditions } }) => {
    const lastTransitionTime = new Date(nowMs - ms).toISOString();
    const programmed = { type: 'Programmed', status: 'True', observedGeneration: 1 };
    const inUse = { type: 'AddressInUse', status, lastTransitionTime };
    return {
      services: [makeService('apps/a', service)],
      virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'], { status: { conditions: [programmed, inUse] } })],
      pools: [makePool('pool', { addresses: ['10.0.9.10-10.0.9.11'] })],
      reports: [makeReport('node-1', 20)],
    };
  };
  const withdraw = decide(look('True', 60_000, { status: publish('10.0.9.10') }));
  const { conditions } = (getWrite(withdraw).body as { status: { conditions: object[] } }).status;

  test('is taken from the status, with a condition and an event', () => {
    expect(tell(withdraw)).toBe(`${none}; False AddressWithdrawn; event Warning AddressInUse`);
  });

  testDecisions({
    'stays with its Service: no other is taken, although one is free': [look('True', 60_000), 'wait nodes'],
    'is not back before 15 s': [look('False', 14_000), `${none}; False AddressWithdrawn`, 'a moment ago'],
    'is back then': [look('False', 15_000), published],
    'is back immediately where the date was ahead': [look('False', -3_600_000), published],
    'goes where its owner asks for another one instead': [
      look('True', 60_000, {
        metadata: { annotations: { 'vipnat.io/addresses': '10.0.9.11' } },
        status: { conditions },
      }),
      `POST VirtualIP 10.0.9.11; finalizers ${finalizer}; services apps/a; leaving none; event Normal AddressAllocated`,
    ],
  });
});
