import { FakeClock } from '../../../support/fakes/clock.ts';
import {
  EventQueue,
  type EventReason,
  toNodeRegarding,
  type RecordedEvent,
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
    expect(notesOf(takeAll())).toEqual(['m2 is dead x1']);
    expect(queue.leftOut).toBe(1);
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
