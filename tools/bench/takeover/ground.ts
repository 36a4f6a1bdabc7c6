import type { Ground } from './set-ups.ts';
import { ServiceWriter } from '../shared/service-writer.ts';
import type { LabOptions } from '../../lab/settings/options.ts';
import * as objects from './objects.ts';
import { SmallCluster } from '../shared/small-cluster.ts';
import { runShell } from '../../lab/machines/machine.ts';
import { Metallb } from './metallb.ts';
import { locateProgram } from '../shared/go-program.ts';
import type { Client } from './round.ts';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { Dialogue } from '../shared/dialogue.ts';

/** Requests to an address: enough to see a tenth of a second with 1,000 of them on two cores. */
const everyMs = { few: 10, many: 100 };

/** Three nodes with kube-proxy, a pod on another one, and a client. */
export interface Field extends Ground {
  readonly writer: ServiceWriter;
}

/** Brings it up, without any Service. */
export async function raiseField(options: LabOptions, hasMetallb: boolean): Promise<Field> {
  const { nodes, podNode, client } = objects;
  const cluster = await SmallCluster.raise(options, [...nodes, podNode, client]);
  try {
    for (const node of nodes) {
      const second = `${objects.toSecondAddress(node)}/16`;
      await runShell(cluster.machine(node.name), `ip addr add ${second} dev eth0`);
    }
    // The client's kernel must not send on what is for the asking address.
    await runShell(cluster.machine(client.name), 'echo 0 > /proc/sys/net/ipv4/ip_forward');
    const writer = new ServiceWriter(cluster, objects.podPort);
    await writer.writeBasics([...nodes, podNode], objects.seatNetwork, objects.nodeNames);
    const metallb = hasMetallb ? await Metallb.install(cluster, nodes) : null;
    const listen = `${objects.podAddress}:${objects.podPort.port}`;
    await cluster.service(podNode.name, 'pod').start([locateProgram('services'), 'echo', '-listen', listen]);
    await Promise.all(nodes.map(({ name }) => cluster.startKubeProxy(name, 'iptables')));
    return { cluster, metallb, writer };
  } catch (error) {
    await cluster.down();
    throw error;
  }
}

/** A client that asks the addresses of all Services. Close its probe when done. */
export async function openClient({ cluster, writer }: Field): Promise<Client> {
  const targets = join(cluster.folder, 'targets');
  writeFileSync(targets, writer.services.map(({ vip }) => `${vip}\n`).join(''));
  const every = writer.services.length > 1 ? everyMs.many : everyMs.few;
  const command = [
    ...[locateProgram('services'), 'probe', '-own', objects.askingAddress],
    ...['-targets', targets, '-every', `${every}ms`],
  ];
  const probe = await Dialogue.open(cluster.machine(objects.client.name).spawn(command));
  const hardware = await Promise.all(
    objects.nodeNames.map(async (name): Promise<[string, string]> => {
      const text = await runShell(cluster.machine(name), 'cat /sys/class/net/eth0/address');
      return [text.trim(), name];
    }),
  );
  return { probe, hardwareToNode: new Map(hardware) };
}
