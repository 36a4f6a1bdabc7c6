import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import {
  type AgentPod,
  readProcessStatus,
  runIn,
  leastPrivilege,
  testLooks,
  cannotWithLeastPrivilege,
} from '../pods/features.ts';
import {
  findPod,
  listCrashes,
  printManifest,
  waitForWaiting,
  listHolderLast,
  waitForPod,
  readLog,
} from '../pods/agents.ts';
import { test, expect, describe } from '@jest/globals';
import { underLoad } from '../measure/load.ts';
import { masters } from '../../../support/network/layout.ts';
import { takeStaticPod, putStaticPod } from '../pods/static-pod.ts';
import { expectNothingNoticed } from '../measure/expect-load.ts';
import { waitForAgents, waitForDaemonSet } from '../../../../tools/lab/nodes/ready.ts';
import { isLong } from '../../../support/jest/extent.ts';
import { release } from 'node:os';
import type { CommandResult } from '../../../../tools/lab/machines/machine.ts';

/** Tests that the printed DaemonSet runs under kubelets in both its privileges, and that clients notice none of its changes. */
export function testDaemonSet(lab: () => NodeLab): void {
  /** The pod on the VIP's holder: only there anybody notices whether the VIP is balanced. */
  const findAgent = async (): Promise<AgentPod> => {
    const [node = ''] = await lab().listHolders();
    return { node, name: (await findPod(lab(), node))?.name ?? '' };
  };

  test('takes over from static pods: no connection fails, and no agent is started again', async () => {
    const crashes = await listCrashes(lab());
    const report = await underLoad(lab(), async () => {
      await lab().apply(await printManifest(lab(), 'daemonset'));
      for (const { name } of masters) await waitForWaiting(lab(), name);
      for (const master of await listHolderLast(lab())) {
        await takeStaticPod(lab(), master, 'vipnat');
        await waitForPod(lab(), master);
      }
    });
    expectNothingNoticed('static pods → DaemonSet', report);
    expect(await listCrashes(lab(), crashes)).toEqual([]);
    await waitForAgents(lab());
  });

  testFewModules(lab);

  test('has every right, and a root file system that it can write', async () => {
    const agent = await findAgent();
    const rights = { Uid: '0', NoNewPrivs: '0', Seccomp: '0' };
    expect(await readProcessStatus(lab(), agent)).toMatchObject(rights);
    expect(await runIn(lab(), agent, ['touch', '/usr/new'])).toMatchObject({ exitCode: 0 });
  });

  test('follows the API with the rights of its role', async () => {
    for (const { name } of masters) {
      const pod = await findPod(lab(), name);
      expect(await readLog(lab(), pod?.name ?? '')).toMatch(/ follows the API at /);
    }
  });

  test("the pod on the VIP's holder is deleted: it ends by itself, and no connection fails", async () => {
    const { node, name } = await findAgent();
    const log = lab().kubectl(['logs', '--follow', '--tail=1', '--namespace', 'kube-system', name]);
    const report = await underLoad(lab(), async () => {
      await lab().ask(['delete', 'pod', name, '--namespace', 'kube-system']);
      await waitForPod(lab(), node, name);
    });
    expect((await log).stdout).toMatch(/ SIGTERM: vipnat stops\. Its rules stay /);
    expectNothingNoticed("kubectl delete pod on the VIP's holder", report);
  });

  test('is updated to least privilege: no connection fails, and its pods have just those rights', async () => {
    const report = await underLoad(lab(), async () => {
      await lab().apply(hasten(await printManifest(lab(), 'daemonset', '--least-privilege')));
      await waitForDaemonSet(lab(), 'vipnat');
    });
    expectNothingNoticed('rolling update to least privilege', report);
    for (const { name } of masters) {
      const agent = { node: name, name: await waitForPod(lab(), name) };
      expect(await readProcessStatus(lab(), agent)).toMatchObject({ Uid: '0', ...leastPrivilege });
    }
    await waitForAgents(lab());
  });

  describe('with least privilege', () => {
    testLooks(lab, findAgent, cannotWithLeastPrivilege);
  });

  test('gives way to static pods again: no connection fails, and nothing of it is left', async () => {
    const crashes = await listCrashes(lab());
    const report = await underLoad(lab(), async () => {
      for (const { name } of masters) await putStaticPod(lab(), name, 'vipnat');
      const words = ['--namespace', 'kube-system', 'delete'];
      await lab().ask([...words, 'daemonset', 'vipnat', '--cascade=orphan']);
      for (const master of await listHolderLast(lab())) {
        await lab().ask([...words, 'pod', (await findPod(lab(), master))?.name ?? '']);
        const wait = ['--namespace', 'kube-system', 'wait', 'pod', `vipnat-${master}`];
        await lab().ask([...wait, '--for=condition=Ready', '--timeout=60s']);
      }
    });
    expectNothingNoticed('DaemonSet → static pods', report);
    expect(await listCrashes(lab(), crashes)).toEqual([]);
    const input = await printManifest(lab(), 'daemonset');
    await lab().ask(['delete', '--filename', '-', '--ignore-not-found'], { input });
    await waitForAgents(lab());
  });
}

/** By default Kubernetes goes on to the next node as soon as a pod is ready, and not 10 s later: that is no easier, and quicker. */
function hasten(manifest: string): string {
  return isLong ? manifest : manifest.replace(/minReadySeconds: \d+/, 'minReadySeconds: 0');
}

/** Tests that a DaemonSet's privileged pods run with and without /lib/modules, and that they made no such folder. */
function testFewModules(lab: () => NodeLab): void {
  test('starts with and without /lib/modules, and finds what is there', async () => {
    const has = async (node: string) =>
      (await lab().machine(node).run(['test', '-e', '/lib/modules'])).exitCode === 0;
    expect(await Promise.all(masters.map(({ name }) => has(name)))).toEqual([true, true, false]);
    expect((await readModules(lab(), 'm1')).stdout.split('\n')).toContain(release());
    expect((await readModules(lab(), 'm3')).stderr).toContain('No such file or directory');
  });
}

/** What the DaemonSet's pod on a node sees of modules. */
async function readModules(lab: NodeLab, node: string): Promise<CommandResult> {
  const pod = (await findPod(lab, node))?.name ?? '';
  return await lab.kubectl(['exec', '--namespace', 'kube-system', pod, '--', 'ls', '/lib/modules/']);
}
