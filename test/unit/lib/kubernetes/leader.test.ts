import { beforeEach, expect, test } from '@jest/globals';
import { LeaderElection } from '../../../../lib/kubernetes/leader.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { LeaseApi, type Trip } from '../../../support/fakes/lease-api.ts';

let clock: FakeClock;
let api: LeaseApi;
let told: string[];
let trip: Trip;

beforeEach(() => {
  clock = new FakeClock();
  api = new LeaseApi(clock);
  told = [];
  trip = { thereMs: 1, backMs: 1 };
});

function begin(identity: string, annotations?: Readonly<Record<string, string>>): LeaderElection {
  const tell = (detail: string) => void told.push(`${clock.now()} ${identity} ${detail}`);
  const election = new LeaderElection({
    client: api.connect(() => trip),
    clock,
    random: () => 1,
    lease: { namespace: 'vipnat', name: 'controller' },
    identity,
    ...(annotations === undefined ? {} : { annotations }),
    onElected: () => {
      tell('leads');
    },
    onLost: () => {
      tell('leads no more');
    },
    onLeader: (leader) => {
      tell(`hears of ${leader}`);
    },
    onProblem: ({ detail }) => {
      tell(detail);
    },
  });
  election.start();
  return election;
}

test('the first creates the Lease and leads; the second hears of it', async () => {
  const first = begin('a');
  await clock.advance(1000);
  const second = begin('b');
  await clock.advance(60_000);
  expect(told).toEqual(['4 a leads', '1002 b hears of a']);
  expect([first.writeMs, second.writeMs]).toEqual([4000, 0]);
  expect([first.leader, second.leader]).toEqual(['a', 'a']);
  expect(api.spec).toMatchObject({
    holderIdentity: 'a',
    leaseDurationSeconds: 15,
    leaseTransitions: 0,
    acquireTime: '2026-01-01T00:00:00.002000Z',
  });
});

test('who leads notes what it is told on the Lease, and that stays when it leads no more', async () => {
  const first = begin('a', { noted: '1' });
  await clock.advance(1000);
  expect(api.annotations).toEqual({ noted: '1' });
  api.annotate({ noted: 'by another', other: 'stays' });
  await clock.advance(5000);
  expect(api.annotations).toEqual({ noted: '1', other: 'stays' });
  void first.stop();
  await clock.advance(100);
  expect(api.annotations).toEqual({ noted: '1', other: 'stays' });
  begin('b', { noted: '2' });
  await clock.advance(5000);
  expect(api.annotations).toEqual({ noted: '2', other: 'stays' });
});

test('who stops gives it back, and the other leads at its next look', async () => {
  const first = begin('a');
  await clock.advance(1000);
  begin('b');
  await clock.advance(10_000);
  void first.stop();
  await clock.advance(2400);
  expect(told.slice(2)).toEqual([expect.stringMatching(/^1[123]\d\d\d b leads$/)]);
  expect(api.spec).toMatchObject({ holderIdentity: 'b', leaseTransitions: 1 });
});

test('whose renewals do not arrive begins no write after 10 s, and leads again when they do', async () => {
  const first = begin('a');
  await clock.advance(8000);
  trip = { thereMs: 1, backMs: null };
  await clock.advance(7500);
  expect(first.writeMs).toBe(4000);
  await clock.advance(1500);
  expect(first.writeMs).toBe(0);
  expect(told.filter((detail) => detail.endsWith('leads no more'))).toHaveLength(1);
  trip = { thereMs: 1, backMs: 1 };
  await clock.advance(12_000);
  expect(first.writeMs).toBe(4000);
  expect(told.at(-1)).toMatch(/a leads$/);
});

test('another waits for 15 s since it last saw a renewal, whatever the dates say', async () => {
  const lost = begin('a');
  await clock.advance(1000);
  const second = begin('b');
  await clock.advance(10_000);
  trip = { thereMs: 60_000, backMs: 1 };
  await clock.advance(2100);
  expect(lost.writeMs).toBe(4000);
  trip = { thereMs: 1, backMs: 1 };
  void lost.stop();
  await clock.advance(60_000);
  expect(second.writeMs).toBe(4000);
});

test('a deleted Lease is created anew by its holder, and not by another for 15 s', async () => {
  const first = begin('a');
  await clock.advance(1000);
  const second = begin('b');
  await clock.advance(5500);
  api.remove();
  await clock.advance(60_000);
  expect(told).toEqual(['4 a leads', '1002 b hears of a']);
  expect([first.writeMs, second.writeMs]).toEqual([4000, 0]);
});

test('the name of another in the Lease ends leading at once', async () => {
  const first = begin('a');
  await clock.advance(1000);
  const stranger = api.connect(() => trip);
  const version = String(1);
  void stranger.write(
    {
      title: '',
      method: 'PATCH',
      path: '',
      body: { metadata: { resourceVersion: version }, spec: { holderIdentity: 'x' } },
    },
    1000,
  );
  await clock.advance(2000);
  expect(first.writeMs).toBe(0);
  expect(told.slice(1)).toEqual([
    expect.stringMatching(/hears of x$/),
    expect.stringMatching(/leads no more$/),
  ]);
});
