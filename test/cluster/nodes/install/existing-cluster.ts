import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { type KeepalivedAlone, conf } from './keepalived-alone.ts';
import { test, expect } from '@jest/globals';
import { listSteps, follow } from '../../../support/documents/typing.ts';
import { masters, apiserverPort } from '../../../support/network/layout.ts';
import type { Administrator } from './administrator.ts';
import { expectShares } from '../measure/expect-shares.ts';
import { waitForPod } from '../pods/agents.ts';
import { leaveAgentOut, insertSnippets } from '../../../support/doctor/snippets.ts';
import { expectNoTraces } from './traces.ts';
import { readSection } from '../../../support/documents/table.ts';

const page = 'docs/quickstart.md';
const heading = 'An existing cluster';

/** Of a step that is not for one node alone. */
const forEachNode = /\beach (?:control-plane )?node\b/;

/** Tests that the quickstart leads from keepalived alone to a balanced VIP, word by word, and back. */
export function testExistingCluster(lab: () => NodeLab, alone: () => KeepalivedAlone): void {
  test.each(listSteps(page, heading))('$name', async ({ lead, commands }) => {
    const nodes = alone().administrators.slice(0, forEachNode.test(lead) ? masters.length : 1);
    const followAll = async ({ type }: Administrator) => {
      for (const command of commands) await follow(page, command, type);
    };
    await Promise.all(nodes.map(followAll));
  });

  test('leads to a VIP that is balanced over all apiservers', async () => {
    await expectShares(lab(), 'client');
    await expectShares(lab(), 'pod-worker');
  });

  test('has doctor print lines with which keepalived follows the agent, and the VIP stays where it is', async () => {
    const before = await lab().listHolders();
    await Promise.all(alone().administrators.map(followDoctor));
    expect(await lab().listHolders()).toEqual(before);
  });

  test('leads back: agents end at once and leave their rules, and `cleanup` leaves the VIP to its holder', async () => {
    const [first] = alone().administrators;
    const [remove = '', cleanup = ''] = readWayBack();
    const ended = awaitExit(lab(), await waitForPod(lab(), first.master));
    await first.shell(remove);
    await ended;
    for (const { type } of alone().administrators)
      expect(await type(`vipnat check --vip ${lab().vip}`)).toMatchObject({ exitCode: 0 });
    for (const { shell } of alone().administrators) {
      await shell(`${cleanup}
${leaveAgentOut} ${conf} >changed.conf
mv changed.conf ${conf}
kill -HUP $(cat /run/keepalived.pid)`);
    }
    await expectNoTraces(lab(), alone().administrators);
    const { apiservers, errors } = await lab().seat('client').request(lab().vip, apiserverPort, 20);
    expect({ apiservers, errors }).toEqual({ apiservers: { [first.master]: 20 }, errors: {} });
  });
}

/** What `doctor --json` says of one check. */
interface Check {
  readonly code: string;
  readonly level: string;
  readonly remedy?: readonly string[];
}

/** Does what doctor says of a keepalived that does not follow the agent. */
async function followDoctor({ type, shell }: Administrator): Promise<void> {
  const find = async () => {
    const { checks } = JSON.parse((await type('vipnat doctor --json')).stdout) as {
      readonly checks: readonly Check[];
    };
    return checks.find(({ code }) => code === 'keepalived-untracked');
  };
  const { remedy = [] } = (await find()) ?? {};
  await insertSnippets({ shell }, conf, remedy);
  await shell(remedy.join('\n'));
  expect(await find()).toMatchObject({ level: 'ok' });
}

/** The two commands below the steps. */
function readWayBack(): readonly string[] {
  const text = readSection(page, heading).replaceAll('\n', ' ');
  return /delete the DaemonSet \(`([^`]+)`\), and then run `([^`]+)` on each node/.exec(text)?.slice(1) ?? [];
}

/** Waits until a pod's agent ends by itself: one that the kubelet kills ends with another status. */
async function awaitExit(lab: NodeLab, pod: string): Promise<void> {
  const path = '{.status.containerStatuses[0].state.terminated.exitCode}';
  await lab.ask([
    ...['wait', 'pod', pod, '--namespace', 'kube-system'],
    ...[`--for=jsonpath=${path}=0`, '--timeout=50s'],
  ]);
}
