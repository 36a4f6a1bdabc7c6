import type { LabOptions } from '../settings/options.ts';
import type { RaiseOptions } from '../control-plane/raise.ts';
import type { NodeLab } from '../nodes/node-lab.ts';
import { requireHost } from '../settings/requirements.ts';
import { prepareKubeadmImages } from './images.ts';
import { nodes, isMaster } from '../nodes/hosts.ts';
import { raiseOnSwitch } from '../nodes/raise.ts';
import { writeBareDisk } from './disk.ts';
import { copyImages } from '../nodes/images.ts';
import { join } from 'node:path';
import { locateDisk } from '../nodes/disk.ts';
import { waitUntil } from '../nodes/ready.ts';

/**
 * Brings up masters before there is a cluster: systemd runs containerd, and kubeadm with the images that it needs is there.
 * The components have to be built, kubeadm included. It goes away with the calling process.
 * @throws LabError as raiseNodes does.
 */
export async function raiseBareNodes(
  options: LabOptions,
  { say = () => undefined }: RaiseOptions = {},
): Promise<NodeLab> {
  const bare = { ...options, hasNodes: true, isBare: true };
  requireHost(bare);
  const template = await prepareKubeadmImages(options.kubernetes, say);
  const own = nodes.filter(isMaster);
  return await raiseOnSwitch(bare, async (lab) => {
    const boot = async (node: (typeof own)[number]) => {
      const labFolder = lab.folder;
      writeBareDisk(node, { labFolder, options, snapshotter: template.snapshotter });
      await copyImages(template, join(locateDisk(labFolder, node.name), '/var/lib/containerd'));
      await lab.boot(node.name);
      await waitForContainerd(lab, node.name);
    };
    await Promise.all(own.map(boot));
  });
}

async function waitForContainerd(lab: NodeLab, node: string): Promise<void> {
  await waitUntil(`containerd runs on ${node}`, async () => {
    const { exitCode, stdout, stderr } = await lab
      .machine(node)
      .run(['systemctl', 'is-active', 'containerd']);
    return exitCode === 0 ? null : `${stdout}${stderr}`;
  });
}
