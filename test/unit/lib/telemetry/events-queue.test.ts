import { FakeClock } from '../../../support/fakes/clock.ts';
import {
  EventQueue,
  type EventReason,
  toNodeRegarding,
  type RecordedEvent,
  toApiEvent,
} from '../../../../lib/telemetry/events.ts';
import { beforeEach, describe, test, expect } from '@jest/globals';

const minute = 60_000;

let clock: FakeClock;
let queue: EventQueue;
const add = (reason: EventReason, note: string, node = 'm1') => {
  queue.add(reason, note, toNodeRegarding(node));
};
beforeEach(() => {
  clock = new FakeClock();
  queue = new EventQueue(clock);
});

/** All that waits, as it would be written now. */
function takeAll(): RecordedEvent[] {
  const events: RecordedEvent[] = [];
  for (let event = queue.take(); event !== null; event = queue.take()) events.push(event.latest);
  return events;
}

const notesOf = (events: readonly RecordedEvent[]) => events.map(({ note, count }) => `${note} x${count}`);

describe('what happens again', () => {
  test('while the first still waits is written with it, as one event', async () => {
    add('ApiserverDead', '10.0.0.11:6443 is dead');
    await clock.advance(2000);
    add('ApiserverDead', '10.0.0.11:6443 is dead');
    expect(takeAll()).toEqual([
      {
        reason: 'ApiserverDead',
        note: '10.0.0.11:6443 is dead',
        regarding: { apiVersion: 'v1', kind: 'Node', name: 'm1', uid: 'm1' },
        stamp: Date.parse('2026-01-01T00:00:00Z') * 1000,
        firstSeen: new Date('2026-01-01T00:00:00Z'),
        lastSeen: new Date('2026-01-01T00:00:02Z'),
        count: 2,
      },
    ]);
  });

  test('is the same event also after it was written, and whatever durations it names', () => {
    const [first = 0, ...others] = ['5 ms', '12 s', '8m33s', '2h05m', '250ms', '0.3 s'].map((age) => {
      add('ApiserverReady', `m1 is ready again after ${age} (3 good answers)`);
      const [event] = takeAll();
      return event?.stamp;
    });
    expect(others).toEqual(others.map(() => first));
    add('ApiserverReady', 'm1 is ready again after 5 ms (4 good answers)');
    expect(takeAll()).toMatchObject([{ count: 1 }]);
  });

  test('after ten quiet minutes is an event of its own', async () => {
    add('ApiserverDead', 'm1 is dead');
    takeAll();
    await clock.advance(10 * minute);
    add('ApiserverDead', 'm1 is dead');
    await clock.advance(10 * minute);
    add('ApiserverDead', 'm1 is dead');
    expect(notesOf(takeAll())).toEqual(['m1 is dead x3']);
    await clock.advance(10 * minute + 1);
    add('ApiserverDead', 'm1 is dead');
    expect(notesOf(takeAll())).toEqual(['m1 is dead x1']);
  });

  test('with another reason is another event', () => {
    add('ApiserverDead', 'm1');
    add('ApiserverReady', 'm1');
    const stamps = takeAll().map(({ stamp }) => stamp);
    expect(stamps[1]).toBe((stamps[0] ?? 0) + 1);
  });
});

describe('the limits', () => {
  test('are 25 events at once, then one in 5 minutes; the others are counted', async () => {
    for (let index = 0; index < 10_000; index += 1) add('ModeChosen', `way ${index}`);
    expect([takeAll().length, queue.leftOut]).toEqual([25, 9975]);
    await clock.advance(5 * minute - 1);
    add('ModeChosen', 'too soon');
    await clock.advance(1);
    add('ModeChosen', 'in time');
    expect(notesOf(takeAll())).toEqual(['in time x1']);
  });

  test('are those of one object: another has its own', () => {
    for (let index = 0; index < 100; index += 1) add('ModeChosen', `way ${index}`);
    for (let index = 0; index < 100; index += 1) add('ModeChosen', `way ${index}`, 'm2');
    expect([takeAll().length, queue.leftOut]).toEqual([50, 150]);
  });

  test('a flapping apiserver takes no room from other events, and its count stays true', async () => {
    for (let index = 0; index < 1000; index += 1) add('ApiserverDead', 'm1 is dead');
    for (let index = 0; index < 1000; index += 1) {
      add('ApiserverDead', 'm1 is dead');
      takeAll();
    }
    add('NotBalanced', 'no apiserver is known');
    expect(notesOf(takeAll())).toEqual(['no apiserver is known x1']);
    await clock.advance(5 * minute);
    add('ApiserverDead', 'm1 is dead');
    expect(notesOf(takeAll())).toEqual(['m1 is dead x2001']);
  });

  test('what could not be written for an hour is news to nobody', async () => {
    add('ApiserverDead', 'm1 is dead');
    await clock.advance(1);
    add('ApiserverDead', 'm2 is dead');
    await clock.advance(60 * minute);
    expect([notesOf(takeAll()), queue.leftOut]).toEqual([['m2 is dead x1'], 1]);
  });
});

test('what was put back is the next, with what has been added to it meanwhile', () => {
  add('ApiserverDead', 'm1 is dead');
  add('ApiserverDead', 'm2 is dead');
  const event = queue.take();
  add('ApiserverDead', 'm1 is dead');
  if (event !== null) queue.putBack(event);
  expect(notesOf(takeAll())).toEqual(['m1 is dead x2', 'm2 is dead x1']);
});

const once: RecordedEvent = {
  ...{ reason: 'ApiserverDead', note: '10.0.0.11:6443 is dead: connection refused' },
  ...{ regarding: toNodeRegarding('m1.example.com'), stamp: 0x66_0d_09_ad_e7_81_8 },
  firstSeen: new Date('2026-11-21T21:57:40.123Z'),
  lastSeen: new Date('2026-11-21T21:57:42.456Z'),
  count: 1,
};

describe('an event', () => {
  test('is about the node, as kubectl describe node looks for it', () => {
    expect(toApiEvent(once, 'm1.example.com')).toEqual({
      ...{ apiVersion: 'events.k8s.io/v1', kind: 'Event' },
      metadata: { name: 'm1.example.com.660d09ade7818', namespace: 'default' },
      ...{ eventTime: '2026-11-21T21:57:40.123000Z', type: 'Warning', reason: 'ApiserverDead' },
      ...{ action: 'Probe', note: '10.0.0.11:6443 is dead: connection refused' },
      regarding: { apiVersion: 'v1', kind: 'Node', name: 'm1.example.com', uid: 'm1.example.com' },
      ...{ reportingController: 'vipnat', reportingInstance: 'm1.example.com' },
    });
  });

  test.each(['x', 'ü', '€', '😀'])('has a note of at most 1024 bytes, of whole characters (%s)', (letter) => {
    for (const start of ['', 'a', 'ab', 'abc']) {
      const note = String(toApiEvent({ ...once, note: start + letter.repeat(2000) }, 'm1')['note']);
      expect(Buffer.byteLength(note)).toBeLessThanOrEqual(1024);
      expect(Buffer.byteLength(note)).toBeGreaterThan(1024 - 4);
      expect(note).toBe(`${start}${letter.repeat((note.length - 1 - start.length) / letter.length)}…`);
    }
    const fitting = letter.repeat(1024 / Buffer.byteLength(letter));
    expect(toApiEvent({ ...once, note: fitting }, 'm1')['note']).toBe(fitting);
  });

  test('of a node with a long name has a name of its own that fits', () => {
    const node = `${'a'.repeat(62)}.`.repeat(4).slice(0, 251);
    const event = toApiEvent({ ...once, regarding: toNodeRegarding(node) }, node);
    expect(event.metadata.name).toMatch(/^[a-z0-9][a-z0-9.-]{0,251}[a-z0-9]$/);
    expect(event.metadata.name).toMatch(/[a-z0-9]\.660d09ade7818$/);
    expect(event).toMatchObject({ regarding: { name: node }, reportingInstance: node.slice(0, 128) });
  });
});
