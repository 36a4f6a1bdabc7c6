import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { OwnTime } from '../../support/network/own-time.ts';

describe('the time in which a process ran', () => {
  let own: OwnTime;
  beforeEach(() => {
    own = new OwnTime();
  });
  afterEach(() => {
    own.close();
  });

  /** As a process that gets no processor. */
  const standStill = (milliseconds: number) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
  };

  test('goes on while the process runs', async () => {
    const [begun, at] = [own.now(), performance.now()];
    await sleep(200);
    expect(own.now() - begun).toBeLessThanOrEqual(performance.now() - at + 1);
    expect(own.now() - begun).toBeGreaterThan(0);
  });

  test('leaves out what the process stood still', () => {
    const begun = own.now();
    standStill(400);
    expect(own.now() - begun).toBeLessThan(100);
  });

  test('does not let a limit run out while the process stands still', async () => {
    let hasRunOut = false;
    const end = new Promise<void>((resolve) => own.schedule(200, resolve)).then(() => {
      hasRunOut = true;
    });
    standStill(400);
    // Timers that are due run before this one.
    await sleep(1);
    expect(hasRunOut).toBe(false);
    await end;
  });

  test('calls nobody back who took it back', async () => {
    let count = 0;
    own.schedule(10, () => (count += 1))();
    await sleep(40);
    expect(count).toBe(0);
  });
});
