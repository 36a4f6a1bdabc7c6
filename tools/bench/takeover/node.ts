import { type Ground, type SetUpName, setUps } from './set-ups.ts';
import type { Service } from '../../lab/machines/service.ts';
import { killGroup } from '../shared/seat-node.ts';
import { runShell } from '../../lab/machines/machine.ts';
import { addressNetwork } from './objects.ts';

/** All that runs on a node. */
export function listRunning({ cluster }: Ground, node: string, setUp: SetUpName): Service[] {
  return [...setUps[setUp].services, 'kube-proxy'].map((name) => cluster.service(node, name));
}

/** Starts a set-up on a node. */
export async function startNode(ground: Ground, node: string, setUp: SetUpName): Promise<void> {
  await setUps[setUp].start(ground, node);
}

/** Ends a set-up on a node, and leaves nothing of it there. */
export async function stopNode(ground: Ground, node: string, setUp: SetUpName): Promise<void> {
  for (const name of setUps[setUp].services) await killGroup(ground.cluster.service(node, name));
  await removeAddresses(ground, node);
  await runShell(ground.cluster.machine(node), 'nft delete table ip vipnat-lb 2>/dev/null || true');
}

/** As a boot leaves a node: without rules, and without addresses that are not configured. */
export async function clearNode(ground: Ground, node: string): Promise<void> {
  await removeAddresses(ground, node);
  await runShell(ground.cluster.machine(node), 'nft flush ruleset');
}

async function removeAddresses({ cluster }: Ground, node: string): Promise<void> {
  // keepalived's anchors are on lo.
  await runShell(
    cluster.machine(node),
    `ip addr flush dev eth0 to ${addressNetwork}; ip addr flush dev lo to 169.254.0.0/24`,
  );
}
