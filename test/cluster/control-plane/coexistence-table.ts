import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { afterAll, expect, test } from '@jest/globals';
import { formatTable, formatDuration } from './table.ts';
import { nameLab } from '../../support/lab/test-lab.ts';
import {
  countRestoreFailures,
  timeNewService,
  listReferences,
  limitOfSync,
  waitFor,
} from '../../support/lab/kube-proxy-state.ts';
import { isVirtual } from '../../../tools/lab/control-plane/make.ts';
import { connectWitnessed, lostMs } from '../../support/network/witness.ts';
import { apiserverPort } from '../../support/network/layout.ts';
import { listFinders } from '../../support/lab/witnesses.ts';
import type { KubeProxyMode } from '../../../tools/lab/settings/options.ts';
import { waitForProxyMode, waitForServices, waitForBalance } from '../../../tools/lab/control-plane/ready.ts';

/** What kube-proxy on one node suffers from us, a row for each thing that happened to it; printed after the last test. */
export class CoexistenceTable {
  readonly #lab: () => Lab;
  readonly #node: string;
  readonly #rows: (string | number)[][] = [
    ['what happens', 'restore failures', 'references of ours', 'a new Service works after'],
  ];

  constructor(lab: () => Lab, node: string) {
    this.#lab = lab;
    this.#node = node;
    afterAll(() => {
      const title = `What kube-proxy on a master suffers · ${nameLab(lab())}`;
      process.stderr.write(formatTable(title, this.#rows));
    });
  }

  /**
   * Fails where kube-proxy is blocked: more than one restore failed since `failuresBefore`, a rule of ours still leads
   * into a chain that it does not want any more, or a Service created now does not work before its next try.
   */
  async examine(what: string, failuresBefore: number, references: readonly string[]): Promise<void> {
    const machine = this.#lab().machine(this.#node);
    const failures = (await countRestoreFailures(machine)) - failuresBefore;
    const serviceMs = await timeNewService(this.#lab(), this.#node);
    const after = serviceMs === null ? 'never' : formatDuration(serviceMs);
    this.#rows.push([what, failures, references.length, after]);
    expect(failures).toBeLessThanOrEqual(1);
    expect(references).toEqual([]);
    expect(serviceMs).not.toBeNull();
  }
}

/** Three waits of 120 s at most, and a sync. */
const changeLimitMs = 480_000;

/** New connections per second: what a control plane of thousands of nodes sees on a bad day. */
const loadPerSecond = 500;

/**
 * New connections to the VIP from outside, on their way through a node that holds it. None where nodes are virtual
 * machines: they are too slow for that many.
 */
async function startLoad(lab: Lab, node: string): Promise<{ stop(): Promise<unknown[]> }> {
  if (isVirtual(lab.options, node)) return { stop: () => Promise.resolve([]) };
  expect(await lab.listHolders()).toEqual([node]);
  const load = connectWitnessed(
    (role) => lab.seat('client', `load, ${role}`),
    {
      ...{ host: lab.vip, port: apiserverPort },
      ...{ perSecond: loadPerSecond, durationMs: changeLimitMs, limitMs: lostMs },
    },
    (await listFinders(lab)).slice(-1),
  );
  return {
    stop: async () => {
      const { failures, lostSyns, sent } = await load.end();
      expect(sent).toBeGreaterThan(loadPerSecond);
      return lostSyns === 0 ? failures : [...failures, `${lostSyns} by a second SYN`];
    },
  };
}

/** Tests in which kube-proxy on a node changes its mode, one after another, while the agent runs. */
export function testModeChanges(
  lab: () => Lab,
  node: string,
  table: CoexistenceTable,
  modes: readonly KubeProxyMode[],
): void {
  test.each(modes)('kube-proxy changes its mode to %s', async (mode) => {
    const load = await startLoad(lab(), node);
    await lab().service(node, 'kube-proxy').stop();
    await lab().start(node, 'kube-proxy', { mode });
    // What the mode before has left answers as well.
    await waitForProxyMode(lab(), node, mode);
    await waitForServices(lab(), [node]);
    await waitForBalance(lab());
    expect(await load.stop()).toEqual([]);
    const listLeft = () => listReferences(lab().machine(node));
    // In iptables mode the jump is how the VIP is balanced. In others it may stay until kube-proxy has written.
    const limitMs = limitOfSync(lab(), node);
    if (mode !== 'iptables') await waitFor(async () => (await listLeft()).length === 0, limitMs);
    await table.examine(`mode changed to ${mode}`, 0, mode === 'iptables' ? [] : await listLeft());
  });
}
