import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { runShell } from '../../../../tools/lab/machines/machine.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { toUrlHost } from '../../../../tools/lab/components/command.ts';
import { apiserverPort } from '../../../support/network/layout.ts';

/** An open connection of kubelet or controller-manager to the VIP. */
interface Connection {
  readonly program: string;
  readonly source: string;
  /** That with its port: no other open connection of the master has it. */
  readonly end: string;
  /** Bytes. */
  readonly received: number;
}

/** The programs of a master that connect to the VIP in this lab, as `ss` names them: by 15 letters. */
const programs = ['kubelet', 'kube-controller'];

/** client-go asks an idle connection after 30 s whether it lives. Where something is sent on each, none has to wait for that. */
const idleMs = 35_000;

const restMs = 500;

/**
 * Has a master's kubelet and controller-manager connect to the VIP anew, and answers their connections. Connections from before
 * may have been opened while another master had the VIP: they come from the master's own address, whoever chose it.
 */
export async function reconnect(lab: NodeLab, master: string): Promise<readonly Connection[]> {
  const former = await listConnections(lab, master);
  await runShell(lab.machine(master), `ss --kill --tcp ${toVip(lab)} >/dev/null`);
  let made: readonly Connection[] = [];
  await waitUntil(`kubelet and controller-manager of ${master} connect anew`, async () => {
    made = await listConnections(lab, master);
    if (made.some((one) => isAmong(one, former))) return 'connections from before are open';
    const missing = programs.filter((program) => made.every((one) => one.program !== program));
    return missing.length === 0 ? null : `not yet: ${missing.join(', ')}`;
  });
  return made;
}

/** The open connections to the VIP of a master's kubelet and controller-manager. */
async function listConnections(lab: NodeLab, master: string): Promise<Connection[]> {
  const words = 'ss --no-header --oneline --tcp --numeric --processes --info';
  const lines = await runShell(lab.machine(master), `${words} ${toVip(lab)}`);
  return lines.split('\n').flatMap((line) => {
    const [, , end = ''] = line.trim().split(/\s+/);
    const program = /users:\(\("([^"]+)"/.exec(line)?.[1] ?? '';
    const received = Number(/ bytes_received:(\d+)/.exec(line)?.[1] ?? 0);
    return programs.includes(program)
      ? [{ program, source: end.replace(/:\d+$/, '').replace(/^\[|\]$/g, ''), end, received }]
      : [];
  });
}

/**
 * How many connections of a master receive something from now on; the others have ended then, or nothing has come for 35 s. A kubelet
 * watches its own Node: a change of that is sent on a connection that would be idle otherwise.
 */
export async function countLiving(
  lab: NodeLab,
  master: string,
  connections: readonly Connection[],
): Promise<number> {
  const atFirst = await listConnections(lab, master);
  await lab.ask(['annotate', 'node', master, `vipnat.test/changed=${Date.now()}`, '--overwrite']);
  const until = performance.now() + idleMs;
  for (;;) {
    const now = await listConnections(lab, master);
    const open = atFirst.filter((one) => isAmong(one, connections) && isAmong(one, now));
    const living = open.filter(({ end, received }) =>
      now.some((one) => one.end === end && one.received > received),
    );
    if (living.length === open.length || performance.now() > until) return living.length;
    await sleep(restMs);
  }
}

function isAmong({ end }: Connection, connections: readonly Connection[]): boolean {
  return connections.some((one) => one.end === end);
}

/** What selects the connections to the apiserver's port of the VIP. */
function toVip(lab: NodeLab): string {
  return `state established dst ${toUrlHost(lab.vip)} dport = :${apiserverPort}`;
}
