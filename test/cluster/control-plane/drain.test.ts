import { jest, describe, expect, beforeAll, test, afterAll } from '@jest/globals';
import { type WitnessedReport, connectWitnessed, lostMs } from '../../support/network/witness.ts';
import type { WatchesReport } from '../../support/network/seat-watches.ts';
import { useLab } from './with-lab.ts';
import { vipnatCommand } from '../../../tools/lab/components/agent.ts';
import { apiserverPort, masters } from '../../support/network/layout.ts';
import { listFinders } from '../../support/lab/witnesses.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatDuration, formatTable } from './table.ts';
import { waitForBalance, waitForApiservers } from '../../../tools/lab/control-plane/ready.ts';
import { runShell } from '../../../tools/lab/machines/machine.ts';
import { assignRoles, stopApiserver } from '../../support/lab/faults.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { nameLab } from '../../support/lab/test-lab.ts';

const limitMs = 900_000;

jest.setTimeout(limitMs);

const perSecond = 500;
const watchCount = 20;
const object = 'watched';

/** At the longest: an apiserver that starts on a busy machine takes minutes. */
const longestMs = 600_000;

/** What takes longer has lost its SYN: otherwise a second one would hide for how long they failed. */
const failedMs = 1000;

/** Two checks of a drain, and a look. */
const seenMs = 6000;

/** What a client outside saw, and when things happened, in milliseconds since its watches began. */
interface Seen {
  readonly connects: WitnessedReport;
  readonly watches: WatchesReport['watches'];
}

describe('a master before maintenance, beside kube-proxy in iptables mode', () => {
  const lab = useLab({ proxyMode: 'iptables', iptables: 'nft', shutdownDelaySeconds: 5 });
  const rows: (string | number)[][] = [
    ['drained', 'connects', 'failed', 'for', 'watches', 'ended before the stop', 'ended', 'how'],
  ];

  const run = (master: string, ...words: readonly string[]) =>
    lab()
      .machine(master)
      .run(vipnatCommand(...words));

  /** Asks through the VIP; answers who answered. */
  const ask = async () => {
    const report = await lab().seat('client', 'asks').request(lab().vip, apiserverPort, 60, 10_000);
    expect(report.errors).toEqual({});
    return Object.keys(report.apiservers).sort();
  };

  /** Does something under load; what failed within the limit and what ended is known at the end. */
  async function underLoad(limitMs: number, act: (nowMs: () => number) => Promise<void>): Promise<Seen> {
    const watching = lab().seat('client', 'watches');
    const target = { host: lab().vip, port: apiserverPort };
    const { authority, admin } = lab().certificates;
    const held = await watching.watchTogether({
      ...{ ...target, identity: { authority, ...admin }, object, count: watchCount },
      ...{ pingIntervalMs: 100, silentCount: 0, awaited: [], durationMs: longestMs },
    });
    const startedAt = performance.now();
    const task = { ...target, perSecond, durationMs: longestMs, limitMs };
    const connects = connectWitnessed((role) => lab().seat('client', role), task, await listFinders(lab()));
    await sleep(1500);
    await act(() => performance.now() - startedAt);
    const connected = await connects.end();
    watching.settle();
    return { connects: connected, watches: (await held.report).watches };
  }

  function addRow(name: string, { connects, watches }: Seen, isEarly: (endedAtMs: number) => boolean): void {
    const failedAt = connects.failures.map(({ atMs }) => atMs);
    const failingMs = failedAt.length === 0 ? 0 : Math.max(...failedAt) - Math.min(...failedAt);
    const ended = watches.filter(({ endedAtMs }) => endedAtMs !== null);
    const early = ended.filter(({ endedAtMs }) => isEarly(endedAtMs ?? 0));
    const how = [...new Set(ended.map(({ end }) => end))].join(', ');
    rows.push([
      ...[name, connects.sent, connects.failures.length, formatDuration(failingMs)],
      ...[watches.length, early.length, ended.length, how],
    ]);
  }

  beforeAll(async () => {
    await waitForBalance(lab());
    await lab().api.create('/api/v1/namespaces/default/configmaps', {
      ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: object } },
    });
    // Clients of other kinds take no port of those that come one after the other.
    await runShell(lab().machine('client'), 'echo 61000 65535 > /proc/sys/net/ipv4/ip_local_port_range');
  });

  test('one without the VIP: no connection fails, and watches end only when their apiserver stops', async () => {
    const { other } = await assignRoles(lab());
    let stopMs = Infinity;
    const seen = await underLoad(lostMs, async (nowMs) => {
      expect(await run(other, 'drain')).toMatchObject({ exitCode: 0 });
      await sleep(seenMs);
      expect(await ask()).toEqual(masters.map(({ name }) => name).filter((name) => name !== other));
      stopMs = nowMs();
      await stopApiserver(lab(), other);
      await lab().start(other, 'kube-apiserver');
      await waitForApiservers(lab(), [other]);
      await sleep(seenMs);
      // It is ready, and still drained.
      expect(await ask()).not.toContain(other);
      expect(await run(other, 'undrain')).toMatchObject({ exitCode: 0 });
      await waitFor(async () => (await ask()).includes(other), 60_000);
    });
    addRow('a master without the VIP', seen, (endedAtMs) => endedAtMs < stopMs);
    const theirs = seen.watches.filter(({ apiserver }) => apiserver === other);
    const ended = seen.watches.filter(({ endedAtMs }) => endedAtMs !== null);
    const { failures, lostSyns } = seen.connects;
    expect({ failures, lostSyns }).toEqual({ failures: [], lostSyns: 0 });
    expect(theirs.length).toBeGreaterThan(0);
    expect(ended.map(({ apiserver }) => apiserver)).toEqual(theirs.map(() => other));
    expect(Math.min(...ended.map(({ endedAtMs }) => endedAtMs ?? 0))).toBeGreaterThan(stopMs);
  });

  test('the VIP holder: the VIP moves, and stays where it is after undrain', async () => {
    await waitForBalance(lab());
    const { holder } = await assignRoles(lab());
    const hasMoved = async () => {
      const holders = await lab().listHolders();
      return holders.length === 1 && !holders.includes(holder);
    };
    let [drainedAt, movedAt] = [0, 0];
    const seen = await underLoad(failedMs, async () => {
      drainedAt = performance.timeOrigin + performance.now();
      expect(await run(holder, 'drain')).toMatchObject({ exitCode: 0 });
      await waitFor(hasMoved, 30_000);
      movedAt = performance.timeOrigin + performance.now();
      await sleep(seenMs);
      expect(await ask()).not.toContain(holder);
      expect(await run(holder, 'undrain')).toMatchObject({ exitCode: 0 });
      await waitFor(async () => (await ask()).includes(holder), 60_000);
      expect(await hasMoved()).toBe(true);
    });
    addRow('the VIP holder', seen, () => true);
    // While the VIP moves, as it does from any keepalived that stops.
    const { failures, startedAt } = seen.connects;
    const isMoving = (at: number) => at > drainedAt - failedMs && at < movedAt + failedMs;
    expect(failures.filter(({ atMs }) => !isMoving(startedAt + atMs))).toEqual([]);
  });

  afterAll(() => {
    const title = `What a client outside sees of a drain, at ${perSecond} new connections per second and through ${watchCount} watches`;
    process.stderr.write(formatTable(`${title} · ${nameLab(lab())}`, rows));
  });
});
