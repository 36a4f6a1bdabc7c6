import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import {
  type AgentPod,
  readProcessStatus,
  leastPrivilege,
  runIn,
  testLooks,
  cannotWithLeastPrivilege,
  testRights,
} from '../pods/features.ts';
import { test, expect } from '@jest/globals';
import { readLog, listCrashes } from '../pods/agents.ts';
import { isLong } from '../../../support/jest/extent.ts';
import { ownImage } from '../../../support/manifest/printing.ts';
import { manifestFolder } from '../../../../tools/lab/nodes/disk.ts';
import { runShell } from '../../../../tools/lab/machines/machine.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';

/** Tests that a static pod, which is of least privilege, does all that an agent does, and is replaced as docs/operate.md says. */
export function testLeastPrivilege(lab: () => NodeLab): void {
  const findAgent = async (): Promise<AgentPod> => {
    const [node = ''] = await lab().listHolders();
    return { node, name: `vipnat-${node}` };
  };

  test('has three capabilities and a root file system that it cannot write, and learns the apiservers from the kernel', async () => {
    const agent = await findAgent();
    expect(await readProcessStatus(lab(), agent)).toMatchObject({ Uid: '0', ...leastPrivilege });
    const { stderr } = await runIn(lab(), agent, ['touch', '/usr/new']);
    expect(stderr).toContain('Read-only file system');
    const log = await readLog(lab(), agent.name);
    expect(log).toMatch(/ info {2}vipnat \S+ runs, pid 1$/m);
    expect(log).not.toContain('follows the API');
  });

  testLooks(lab, findAgent, cannotWithLeastPrivilege);

  testRights(lab, findAgent);

  if (isLong) {
    test('is replaced by another version, and that by the one before: no container of it crashes', async () => {
      const { node, name } = await findAgent();
      const machine = lab().machine(node);
      const crashes = await listCrashes(lab());
      const newer = ownImage.replace(/:[^:]*$/, ':newer');
      const replace = async (from: string, to: string) => {
        const file = `${manifestFolder}/vipnat.yaml`;
        await runShell(
          machine,
          `sed 's!image: ${from}$!image: ${to}!' ${file} >/run/new.yaml; mv /run/new.yaml ${file}`,
        );
        await waitUntil(`${name} is ready with the image ${to}`, async () => {
          const path = '{.spec.containers[0].image} {.status.containerStatuses[0].ready}';
          const words = ['get', 'pod', name, '--namespace', 'kube-system', '--output', `jsonpath=${path}`];
          const { stdout } = await lab().kubectl(words);
          return stdout === `${to} true` ? null : stdout;
        });
      };
      await runShell(machine, `ctr --namespace k8s.io images tag ${ownImage} ${newer}`);
      await replace(ownImage, newer);
      await replace(newer, ownImage);
      expect(await listCrashes(lab(), crashes)).toEqual([]);
      await runShell(machine, `ctr --namespace k8s.io images remove ${newer}`);
    });
  }
}
