import { jest, describe, test, expect } from '@jest/globals';
import { deathAndReturn } from '../../support/lab/faults.ts';
import { useLab } from './with-lab.ts';
import { testSevenCases } from './seven-cases.ts';
import { testFaults } from './fault-table.ts';
import { testWithApi } from './api-followers.ts';
import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { runShell } from '../../../tools/lab/machines/machine.ts';
import { readFileSync, writeFileSync } from 'node:fs';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { apply, printOn, requestToken } from './apply.ts';
import { parse } from '../../support/manifest/printing.ts';
import { join } from 'node:path';

jest.setTimeout(400_000);

/** An apiserver's death and return: nobody hears of its lease here, so less is to be seen than elsewhere. */
const shortDeath = deathAndReturn.map((fault) => ({ ...fault, durationMs: 8000 }));

describe('a cluster without kube-proxy', () => {
  const lab = useLab({ proxyMode: 'none' });

  testSevenCases(lab, ['VIP']);

  testFaults(lab, shortDeath);

  describe('and agents that follow the API', () => {
    testWithApi(lab);
    testNodeEvents(lab);
  });
});

/** An event that the API takes is there at once; an agent that starts first has to read credentials and look. */
const toldMs = 20_000;

/** As much of a core/v1 event as kubectl prints. */
interface NodeEvent {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly series?: { readonly count: number };
}

/**
 * A test in which an agent runs with the rights of the DaemonSet's service account alone, under another name than its
 * host's, and what happens on its node is read as `kubectl describe node` does it.
 */
function testNodeEvents(lab: () => Lab): void {
  test("what happens on a node is among its events, written with no more than the Role's rights", async () => {
    const kubeconfig = await createServiceAccount(lab());
    await lab().service('m1', 'vipnat').stop();
    const given = ['--kubeconfig', kubeconfig, '--node-name', 'master-1'];
    await lab().start('m1', 'vipnat', { agentArguments: given });
    await waitForEvent(lab(), 'Normal ModeChosen', /^\S+ starts in mode direct to /);
    for (const count of [1, 2]) {
      await runShell(lab().machine('m1'), 'iptables-nft -t nat -F OUTPUT');
      await waitForEvent(lab(), 'Warning RulesRepaired', /OUTPUT/, count);
    }
    await lab().service('m3', 'kube-apiserver').stop('KILL');
    await waitForEvent(lab(), 'Warning ApiserverDead', /:6443 is dead: connection refused/);
    await waitForEvent(lab(), 'Normal ModeChosen', /^\S+ changes apiservers, now direct to \S+ \S+: /);
    // Whoever comes next waits for it.
    await lab().start('m3', 'kube-apiserver');
    expect(readFileSync(lab().service('m1', 'vipnat').logFile, 'utf8')).not.toMatch(
      / vipnat cannot write events/,
    );
  });
}

/** An event of a type and a reason; without a count, it has happened once or more. */
async function waitForEvent(lab: Lab, kind: string, message: RegExp, count?: number): Promise<void> {
  const isIt = (event: NodeEvent) =>
    `${event.type} ${event.reason}` === kind &&
    message.test(event.message) &&
    (count === undefined || count === (event.series?.count ?? 1));
  await waitFor(async () => (await listNodeEvents(lab, 'master-1')).some(isIt), toldMs);
}

/** By the very selector of `kubectl describe node`, and by who reports. */
async function listNodeEvents(lab: Lab, node: string): Promise<readonly NodeEvent[]> {
  const object = `involvedObject.kind=Node,involvedObject.name=${node},involvedObject.uid=${node}`;
  const selector = encodeURIComponent(`${object},reportingComponent=vipnat`);
  const list = await lab.api.read(`/api/v1/events?fieldSelector=${selector}`);
  return (list as { readonly items: readonly NodeEvent[] }).items;
}

/** Creates the service account that `vipnat manifest daemonset` prints, with its rights. Answers a kubeconfig with a token of it. */
async function createServiceAccount(lab: Lab): Promise<string> {
  await apply(lab, parse(await printOn(lab, 'daemonset')).slice(0, -1));
  const token = await requestToken(lab, 'kube-system', 'vipnat');
  const config = JSON.parse(readFileSync(join(lab.folder, 'kube-proxy.kubeconfig'), 'utf8')) as object;
  const file = join(lab.folder, 'vipnat.kubeconfig');
  writeFileSync(file, JSON.stringify({ ...config, users: [{ name: 'kube-proxy', user: { token } }] }));
  return file;
}
