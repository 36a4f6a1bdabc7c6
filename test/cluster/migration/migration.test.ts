import { jest, describe, beforeAll, test, expect } from '@jest/globals';
import { useLab } from '../control-plane/with-lab.ts';
import { StepTable } from './steps.ts';
import type { WatchesReport } from '../../support/network/seat-watches.ts';
import { masters, apiserverPort } from '../../support/network/layout.ts';
import { configureKeepalived, listHolderLast } from './guide-keepalived.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { haproxyPort } from '../../../tools/lab/components/haproxy.ts';
import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { waitForAgent } from '../../../tools/lab/control-plane/ready.ts';
import { vipnatCommand } from '../../../tools/lab/components/agent.ts';

const limitMs = 400_000;

jest.setTimeout(limitMs);

const watched = 'watched';

/** The steps of docs/migrate.md in their order, under 500 new connections per second and beside open watches. */
describe('away from keepalived and HAProxy as kubeadm has them', () => {
  const lab = useLab({}, { hasAgents: false });
  const steps = new StepTable(lab);
  const nothing = () => Promise.resolve();
  const startBoth = () => startAgents(lab(), [haproxyPort]);
  let watching: { report: Promise<WatchesReport> };

  beforeAll(async () => {
    for (const { name } of masters) await lab().start(name, 'haproxy');
    await configureKeepalived(lab(), 'haproxy');
    await waitFor(() => isAnswered(lab(), haproxyPort), limitMs);
    watching = await openWatches(lab());
    // Where a step fails nobody asks for it, and it ends with the lab.
    watching.report.catch(() => undefined);
  });

  test('before: every connection goes through HAProxy', async () => {
    const { sent, errors, proxied } = await steps.take('HAProxy alone', haproxyPort, nothing);
    expect(errors).toEqual({});
    expect(proxied).toBeGreaterThanOrEqual(sent);
  });

  test('vipnat is started: what is new goes past HAProxy', async () => {
    const { errors } = await steps.take('vipnat started', haproxyPort, startBoth);
    expect(errors).toEqual({});
    const { errors: later, proxied, sent } = await steps.take('… and running', haproxyPort, nothing);
    expect(later).toEqual({});
    // keepalived's check still asks HAProxy itself, once a second, however long the step takes.
    expect(proxied).toBeLessThan(sent / 100);
  });

  test('the way back: vipnat cleanup gives everything to HAProxy again', async () => {
    const { errors, proxied } = await steps.take('back: vipnat cleanup', haproxyPort, () =>
      removeAgents(lab()),
    );
    expect(errors).toEqual({});
    expect(proxied).toBeGreaterThan(500);
    const again = await steps.take('vipnat started again', haproxyPort, startBoth);
    expect(again.errors).toEqual({});
  });

  test('keepalived asks vipnat instead of HAProxy: the VIP stays', async () => {
    const { errors } = await steps.take("keepalived's check replaced", haproxyPort, () =>
      configureKeepalived(lab(), 'vipnat'),
    );
    expect(errors).toEqual({});
  });

  test('HAProxy listens no more, then ends: only the connections that it still has notice, and only then', async () => {
    const soft = await steps.take('HAProxy listens no more', haproxyPort, () => signalProxies(lab(), 'USR1'));
    expect(soft.errors).toEqual({});
    const endedAt = Date.now();
    const { errors } = await steps.take('HAProxy ended: the switch', haproxyPort, () =>
      signalProxies(lab(), 'TERM'),
    );
    expect(errors).toEqual({});
    lab().seat('client', 'watches').settle();
    const { startedAt, watches } = await watching.report;
    const ends = watches.map(({ endedAtMs }) => endedAtMs);
    steps.addWatches(ends.filter((end) => end !== null).length, watches.length);
    expect(ends.filter((end) => end === null || startedAt + end < endedAt)).toEqual([]);
  });

  test("clients are at the apiservers' own port, and HAProxy's is given up", async () => {
    const { errors } = await steps.take('one port left', apiserverPort, async () => {
      await stopAgents(lab());
      await startAgents(lab());
    });
    expect(errors).toEqual({});
    expect(await isAnswered(lab(), haproxyPort)).toBe(false);
  });
});

async function isAnswered(lab: Lab, port: number): Promise<boolean> {
  const { apiservers } = await lab.seat('client', 'check').request(lab.vip, port, 10);
  return Object.values(apiservers).reduce((sum, count) => sum + count, 0) === 10;
}

/** Watches through HAProxy, each on a connection of its own that does not come again. */
async function openWatches(lab: Lab): Promise<{ report: Promise<WatchesReport> }> {
  await lab.api.create('/api/v1/namespaces/default/configmaps', {
    ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: watched } },
  });
  const { authority, admin } = lab.certificates;
  return lab.seat('client', 'watches').watchTogether({
    ...{ host: lab.vip, port: haproxyPort, identity: { authority, ...admin }, object: watched },
    ...{ count: 20, silentCount: 0, pingIntervalMs: 1000, awaited: [], durationMs: 10 * limitMs },
  });
}

async function signalProxies(lab: Lab, signal: string): Promise<void> {
  for (const { name } of listHolderLast()) await lab.service(name, 'haproxy').signal(signal);
}

/** Starts an agent on each master for the VIP's own port, and more ports where they are given; answers when all balance. */
async function startAgents(lab: Lab, morePorts: readonly number[] = []): Promise<void> {
  const agentArguments = morePorts.flatMap((port) => ['--vip', `${lab.vip}:${port}`]);
  for (const { name } of listHolderLast()) {
    await lab.start(name, 'vipnat', { agentArguments });
    await waitForAgent(lab, name, { ports: [apiserverPort, ...morePorts] });
  }
}

/** Stops them; what they wrote stays. */
async function stopAgents(lab: Lab): Promise<void> {
  for (const { name } of listHolderLast()) await lab.service(name, 'vipnat').stop();
}

/** Stops them, and takes away what they wrote. */
async function removeAgents(lab: Lab): Promise<void> {
  await stopAgents(lab);
  for (const { name } of listHolderLast()) {
    const { exitCode, stderr } = await lab.machine(name).run(vipnatCommand('cleanup'));
    if (exitCode !== 0) throw new Error(`vipnat cleanup on ${name}: ${stderr}`);
  }
}
