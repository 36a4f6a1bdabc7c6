import { chooseRounds, onlyLong } from '../../../support/jest/extent.ts';
import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { test, expect } from '@jest/globals';
import { underLoad, places } from '../measure/load.ts';
import { outsider } from '../../../support/network/layout.ts';
import { tell } from '../../../support/lab/test-lab.ts';
import { pickPercentile } from '../../../../tools/bench/shared/statistics.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitUntil, waitForAgents, listPods } from '../../../../tools/lab/nodes/ready.ts';
import { expectNothingNoticed } from '../measure/expect-load.ts';
import { expectSourceRoutes } from '../pods/source-routes.ts';
import { waitForProgram } from '../pods/static-pod.ts';

const rounds = chooseRounds(20);
const limitMs = 30 * 60_000;

/** Backups wait for three adverts of a second and a part of one. */
const failingLimitMs = 10_000;

/** What takes longer has lost its SYN: otherwise a second one would hide for how long they failed. */
const failedMs = 1000;

/** How much later the power may go, so that it meets everybody's timers in every phase. */
const phaseMs = 1000;

const lookIntervalMs = 500;

/** Tests what clients see when the VIP's holder loses its power, and that they see nothing of its return. */
export function testPower(lab: () => NodeLab): void {
  for (const name of onlyLong(
    "the VIP's holder loses its power: new connections fail for seconds, and its return moves nothing",
  ))
    test(name, () => loseAgainAndAgain(lab()), limitMs);
}

async function loseAgainAndAgain(lab: NodeLab): Promise<void> {
  const windows: number[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    const [holder = ''] = await lab.listHolders();
    const act = () => takePower(lab, holder, (phaseMs * round) / rounds);
    const options = { from: [outsider.name], stricken: holder, limitMs: failedMs };
    const { failingMs, failed, sent } = await underLoad(lab, act, options);
    tell(
      `power off ${round} of ${rounds}: ${failed.length} of ${sent} connections failed, for ${failingMs.toFixed(0)} ms`,
    );
    expect(failed.length).toBeGreaterThan(0);
    expect(failed.join()).not.toContain('never became quiet');
    windows.push(failingMs);
    await expectQuietReturn(lab, holder);
  }
  const [middle = 0, worst = 0] = [50, 99].map((percent) => pickPercentile(windows, percent));
  tell(
    `the VIP's holder lost its power ${rounds} times: new connections failed for ${middle.toFixed(0)} ms (p50), ${worst.toFixed(0)} ms (p99)`,
  );
  expect(worst).toBeLessThan(failingLimitMs);
}

async function takePower(lab: NodeLab, holder: string, waitMs: number): Promise<void> {
  await sleep(waitMs);
  await lab.powerOff(holder);
  await waitUntil('another master has the VIP', async () => {
    const holders = await lab.listHolders();
    return holders.length === 1 && holders[0] !== holder ? null : `on ${holders.join(', ')}`;
  });
}

/** A node boots: the VIP stays where it is, no connection fails, and the node serves again as before. */
async function expectQuietReturn(lab: NodeLab, node: string): Promise<void> {
  const [holder = ''] = await lab.listHolders();
  const seen = new Set<string>();
  const from = places.filter((place) => place !== node);
  const report = await underLoad(
    lab,
    async () => {
      const returned = boot(lab, node);
      const back = new AbortController();
      const onEnd = () => {
        back.abort();
      };
      returned.then(onEnd, onEnd);
      while (!back.signal.aborted) {
        for (const name of await lab.listHolders()) seen.add(name);
        await sleep(lookIntervalMs);
      }
      await returned;
    },
    { from, stricken: node },
  );
  expectNothingNoticed(`return of ${node}`, report);
  expect([...seen]).toEqual([holder]);
  expect(await lab.listHolders()).toEqual([holder]);
  await expectSourceRoutes(lab);
}

/** Boots a node and waits until its pods are new and ready, and its rules as they should be. */
async function boot(lab: NodeLab, node: string): Promise<void> {
  await lab.boot(node);
  await waitForAgents(lab);
  await waitForProgram(lab, node, 'keepalived', true);
  await waitUntil(`the pods on ${node} are ready`, async () => {
    const pods = (await listPods(lab))?.filter((pod) => pod.node === node);
    const missing = pods?.filter(({ isReady }) => !isReady).map(({ name }) => name);
    return missing?.length === 0 ? null : `not yet: ${missing?.join(', ') ?? 'no apiserver says so'}`;
  });
}
