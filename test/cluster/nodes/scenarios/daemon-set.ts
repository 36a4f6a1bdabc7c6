import { expect, test } from '@jest/globals';
import { type NodeLab } from '../../../../lab/nodes/node-lab.ts';
import { waitForAgents, waitForDaemonSet } from '../../../../lab/nodes/ready.ts';
import { isLong } from '../../../support/jest/long.ts';
import { masters } from '../../../support/network/layout.ts';
import {
  findPod,
  listHolderLast,
  listCrashes,
  printManifest,
  readLog,
  waitForPod,
  waitForWaiting,
} from '../pods/agents.ts';
import { putStaticPod, takeStaticPod } from '../pods/static-pod.ts';
import { expectNothingNoticed } from '../measure/expect-load.ts';
import { testFewModules } from './few-modules.ts';
import { underLoad } from '../measure/load.ts';

const limitMs = 5 * 60_000;

/** The bits of NET_ADMIN and NET_RAW in /proc/PID/status, by capabilities(7). */
const networkCapabilities = ((1n << 12n) | (1n << 13n)).toString(16).padStart(16, '0');

/** Tests that the printed DaemonSet runs under kubelets in both its privileges, and that clients notice none of its changes. */
export function testDaemonSet(lab: () => NodeLab): void {
  test(
    'takes over from static pods: no connection fails, and no agent is started again',
    async () => {
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
    },
    limitMs,
  );

  testFewModules(lab);

  test(
    'follows the API with the rights of its role, and writes events of its nodes',
    async () => {
      for (const { name } of masters) {
        const pod = await findPod(lab(), name);
        expect(await readLog(lab(), pod?.name ?? '')).toMatch(/ follows the API at /);
      }
      const path =
        '{range .items[?(@.reportingComponent=="vipnat")]}{.involvedObject.name} {.reason}{"\\n"}{end}';
      const events = await lab().ask([
        'get',
        'events',
        '--namespace',
        'default',
        '--output',
        `jsonpath=${path}`,
      ]);
      const expected = masters.map(({ name }) => `${name} WayChosen`);
      expect(events.split('\n')).toEqual(expect.arrayContaining(expected));
    },
    limitMs,
  );

  test(
    "the pod on the VIP's holder is deleted: no connection fails",
    async () => {
      const [holder = ''] = await lab().listHolders();
      const before = (await findPod(lab(), holder))?.name ?? '';
      const report = await underLoad(lab(), async () => {
        await lab().ask(['delete', 'pod', before, '--namespace', 'kube-system']);
        await waitForPod(lab(), holder, before);
      });
      expectNothingNoticed("kubectl delete pod on the VIP's holder", report);
    },
    limitMs,
  );

  test(
    'is updated to least privilege: no connection fails, and its pods have just those rights',
    async () => {
      const report = await underLoad(lab(), async () => {
        await lab().apply(hasten(await printManifest(lab(), 'daemonset', '--least-privilege')));
        await waitForDaemonSet(lab(), 'vipnat');
      });
      expectNothingNoticed('rolling update to least privilege', report);
      for (const { name } of masters) {
        const pod = await waitForPod(lab(), name);
        const words = ['exec', '--namespace', 'kube-system', pod, '--', 'cat', '/proc/1/status'];
        const lines = (await lab().ask(words)).split('\n').map((line) => line.split(/:\s+/));
        expect(Object.fromEntries(lines)).toMatchObject({
          ...{ CapEff: networkCapabilities, CapBnd: networkCapabilities, NoNewPrivs: '1', Seccomp: '2' },
        });
      }
      await waitForAgents(lab());
    },
    limitMs,
  );

  test(
    'gives way to static pods again: no connection fails, and nothing of it is left',
    async () => {
      const crashes = await listCrashes(lab());
      const report = await underLoad(lab(), async () => {
        for (const { name } of masters) await putStaticPod(lab(), name, 'vipnat');
        const words = ['--namespace', 'kube-system', 'delete'];
        await lab().ask([...words, 'daemonset', 'vipnat', '--cascade=orphan']);
        for (const master of await listHolderLast(lab())) {
          await lab().ask([...words, 'pod', (await findPod(lab(), master))?.name ?? '']);
          await lab().ask([
            '--namespace',
            'kube-system',
            'wait',
            'pod',
            `vipnat-${master}`,
            '--for=condition=Ready',
            '--timeout=60s',
          ]);
        }
      });
      expectNothingNoticed('DaemonSet → static pods', report);
      expect(await listCrashes(lab(), crashes)).toEqual([]);
      await lab().ask(['delete', '--filename', '-', '--ignore-not-found'], {
        input: await printManifest(lab(), 'daemonset'),
      });
      await waitForAgents(lab());
    },
    limitMs,
  );
}

/** By default Kubernetes goes on to the next node as soon as a pod is ready, and not 10 s later: that is no easier, and quicker. */
function hasten(manifest: string): string {
  return isLong ? manifest : manifest.replace(/minReadySeconds: \d+/, 'minReadySeconds: 0');
}
