/** Whether a round may begin. */
import { nodes, isMaster, type NodeHost } from '../../lab/nodes/hosts.ts';
import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { LabError } from '../../lab/settings/error.ts';
import { waitUntil } from '../../lab/nodes/ready.ts';
import { webName } from './set-ups.ts';
import { waitForAddress, findHolder } from '../../lab/services/web.ts';
import type { Target } from '../../../test/support/network/seat-tasks.ts';
import { defaultBalancerListen } from '../../../cli/manifest/request.ts';

/** The nodes that have pods, and may have addresses. */
const workers = nodes.filter((node) => !isMaster(node));

/** So many connections meet all of four pods. */
const greetings = 60;

/** So often has every node been asked since the round before. */
const probesEach = 8;

/** Who plays which part. */
export interface Parts {
  /** Has the address, and is left alone. */
  readonly holder: NodeHost;
  /** Has pods, and fails. */
  readonly victim: NodeHost;
}

/**
 * Waits until one worker has the address, both have pods, and both hear all other nodes.
 * @throws LabError with what is in the way when it does not become so.
 */
export async function waitForCalm(lab: NodeLab): Promise<Parts> {
  const holderName = await waitForHolder(lab);
  const [holder, victim] = workers.toSorted((one) => (one.name === holderName ? -1 : 1));
  if (holder?.name !== holderName || victim === undefined) throw new LabError(`${holderName} is no worker`);
  await waitUntil('every worker has pods', async () => {
    const words = ['get', 'pods', '--namespace', 'default', '--selector', `app=${webName}`];
    const path = '--output=jsonpath={.items[?(@.status.podIP)].spec.nodeName}';
    const found = (await lab.ask([...words, path])).split(' ');
    const missing = workers.filter(({ name }) => !found.includes(name));
    return missing.length === 0 ? null : `none on ${missing.map(({ name }) => name).join(', ')}`;
  });
  for (const { name } of workers) await waitForHealth(lab, name, name === holder.name ? probesEach : 1);
  return { holder, victim };
}

/** The node that has the address, once one node has it. */
async function waitForHolder(lab: NodeLab): Promise<string> {
  const address = await waitForAddress(lab, webName);
  const found = new Set<string>();
  await waitUntil('one node has the address', async () => {
    const name = await findHolder(lab, address);
    if (name !== null) found.add(name);
    return name === null ? 'none has, or several' : null;
  });
  return [...found].join(' ');
}

/** Waits until a node's balancer asks all others again and again, and all answer. */
async function waitForHealth(lab: NodeLab, node: string, rounds: number): Promise<void> {
  const before = await readHealth(lab, node);
  await waitUntil(`${node} hears all other nodes`, async () => {
    const now = await readHealth(lab, node);
    const isSo =
      now.unresponsive === 0 &&
      now.asked === nodes.length - 1 &&
      now.probes - before.probes >= rounds * now.asked;
    return isSo ? null : JSON.stringify({ before, now });
  });
}

/** Waits until so many pods answer at a place, and no connection fails. */
export async function waitForPods(lab: NodeLab, { host, port }: Target, count: number): Promise<void> {
  const client = lab.seat('client', 'greets');
  await waitUntil(`${count} pods answer at ${host}:${port}`, async () => {
    const { apiservers, errors } = await client.greet(host, port, greetings);
    const isSo = Object.keys(apiservers).length === count && Object.keys(errors).length === 0;
    return isSo ? null : JSON.stringify({ apiservers, errors });
  });
}

interface Health {
  readonly asked: number;
  readonly unresponsive: number;
  readonly probes: number;
}

/** What a balancer says of itself; nothing while it does not run. */
async function readHealth(lab: NodeLab, node: string): Promise<Health> {
  const { address, port } = defaultBalancerListen;
  const words = ['curl', '--silent', '--max-time', '2', `http://${address}:${port}/metrics`];
  const { stdout } = await lab.machine(node).run(words);
  const read = (name: string) =>
    Number(new RegExp(`^vipnat_balancer_${name} (\\d+)$`, 'm').exec(stdout)?.[1] ?? 0);
  return {
    asked: read('nodes_asked'),
    unresponsive: read('nodes_silent'),
    probes: read('node_probes_total'),
  };
}
