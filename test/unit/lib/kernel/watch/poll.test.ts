import { describe, expect, test } from '@jest/globals';
import { startPoll } from '../../../../../lib/kernel/watch/poll.ts';
import { FakeClock } from '../../../../support/fakes/clock.ts';

describe('a poll', () => {
  test('takes the first look as what others are compared with, and calls back at changes only', async () => {
    const { clock, changes, see, poll } = start(1);
    await clock.advance(500);
    expect(changes()).toBe(0);
    see(2);
    await clock.advance(50);
    expect(changes()).toBe(1);
    await clock.advance(500);
    expect(changes()).toBe(1);
    await poll.stop();
  });

  test('reports the first of a row of failures, goes on, and reports again after it has seen again', async () => {
    const { clock, changes, problems, see, poll } = start(1);
    await clock.advance(50);
    see(new Error('EPERM'));
    await clock.advance(500);
    expect(problems).toEqual(['NETLINK_FAILED']);
    see(2);
    await clock.advance(50);
    expect(changes()).toBe(1);
    see(new Error('EPERM'));
    await clock.advance(500);
    expect(problems).toHaveLength(2);
    await poll.stop();
  });

  test('looks at multiples of its interval, so that polls wake the processor together', async () => {
    const clock = new FakeClock();
    await clock.advance(30);
    const looks: number[] = [];
    const options = { clock, everyMs: () => 50, onChange: ignore, onProblem: ignore };
    const poll = startPoll({ ...options, look: () => Promise.resolve(looks.push(clock.now())) });
    await clock.advance(150);
    // 50 is nearly reached at 30: the look at 30 stands for it.
    expect(looks).toEqual([30, 100, 150]);
    await poll.stop();
  });

  test('never starts a look before the last one has ended', async () => {
    const clock = new FakeClock();
    let running = 0;
    let most = 0;
    const look = async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise<void>((resolve) => clock.schedule(180, resolve));
      running -= 1;
      return null;
    };
    const poll = startPoll({ clock, look, everyMs: () => 50, onChange: ignore, onProblem: ignore });
    await clock.advance(2000);
    expect(most).toBe(1);
    const stopped = poll.stop();
    await clock.advance(200);
    await stopped;
    expect(clock.pending).toBe(0);
  });

  test('calls nobody back once it is stopped, and leaves nothing scheduled', async () => {
    const { clock, changes, see, poll } = start(1);
    await clock.advance(50);
    see(2);
    await poll.stop();
    await clock.advance(500);
    expect(changes()).toBe(0);
    expect(clock.pending).toBe(0);
  });
});

function start(first: number) {
  const clock = new FakeClock();
  const problems: string[] = [];
  let seen: number | Error = first;
  let changes = 0;
  const poll = startPoll({
    clock,
    look: () => (typeof seen === 'number' ? Promise.resolve(seen) : Promise.reject(seen)),
    everyMs: () => 50,
    onChange: () => {
      changes += 1;
    },
    onProblem: ({ code }) => problems.push(code),
  });
  const see = (next: number | Error) => {
    seen = next;
  };
  return { clock, problems, see, poll, changes: () => changes };
}

function ignore(): void {
  // What is reported is another test's matter.
}
