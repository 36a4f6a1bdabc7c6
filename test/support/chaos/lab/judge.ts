import { type ControlPlane, masterNames } from './control-plane.ts';
import { listHolders } from './knowledge.ts';
import { vipnatCommand } from '../../../../tools/lab/components/agent.ts';
import { judgeCheck } from '../world/judge.ts';
import { readFileSync } from 'node:fs';
import { isReachable } from './masters.ts';

/** Complaints about who holds the VIP: one, of those that others reach. */
export async function judgeHolders(plane: ControlPlane): Promise<string[]> {
  const holders = await listHolders(plane);
  return holders.length === 1 ? [] : [`the VIP is held by ${holders.join(', ') || 'nobody'}`];
}

/** Complaints about each of some masters, looked for at the same time. */
export async function judgeEach(
  names: readonly string[],
  judge: (name: string) => Promise<string[]>,
): Promise<string[]> {
  return (await Promise.all(names.map(judge))).flat();
}

/** Complaints about agents: each runs, and a look of somebody who comes anew finds nothing to do. */
export function judgeAgents(plane: ControlPlane): Promise<string[]> {
  return judgeEach(listPowered(plane), async (name) => {
    if (!(await plane.lab.service(name, 'vipnat').isRunning()))
      return [`${name}: the agent has ended by itself`];
    const command = vipnatCommand('check', '--vip', plane.lab.vip);
    return judgeCheck(name, await plane.lab.machine(name).run(command));
  });
}

/** Complaints about the administrators' rules. */
export function judgeFirewalls(plane: ControlPlane): Promise<string[]> {
  return judgeEach(listPowered(plane), (name) => plane.firewall(name).compare());
}

/** One line that kube-proxy logs when something keeps a chain of its from going, with either backend. */
const blockedPattern = /CHAIN_(?:USER_)?DEL failed|Too many links/g;

/** Complaints about kube-proxy: that it could not write what it wanted. */
export class ProxyJudge {
  readonly #plane: ControlPlane;
  readonly #counts = new Map<string, number>();

  constructor(plane: ControlPlane) {
    this.#plane = plane;
  }

  /**
   * Whether kube-proxy was kept from deleting a chain more than once since this was last asked: it fails once where its
   * last endpoint goes, and is in nobody's way by its next try.
   */
  takeBlocked(): string[] {
    return masterNames.flatMap((name) => {
      const { logFile } = this.#plane.lab.service(name, 'kube-proxy');
      const count = (readFileSync(logFile, 'utf8').match(blockedPattern) ?? []).length;
      const before = this.#counts.get(name) ?? 0;
      this.#counts.set(name, count);
      return count - before > 1
        ? [`${name}: kube-proxy was blocked ${count - before} times, see ${logFile}`]
        : [];
    });
  }

  /** Whether one that begins may have its one connection to an apiserver that accepts, and answers nothing for a minute. */
  #mayHang(): boolean {
    const usable = this.#plane.usable();
    return this.#plane.masters.some(({ name, apiserver }) => apiserver !== 'dead' && !usable.includes(name));
  }

  /** Whether each has written what it wanted to write last; one that reaches no apiserver does not even start. */
  judge(): Promise<string[]> {
    const reached = this.#plane.masters.filter(isReachable).map(({ name }) => name);
    const command = ['curl', '-s', '--max-time', '2', 'http://127.0.0.1:10249/metrics'];
    return judgeEach(reached, async (name) => {
      const { stdout } = await this.#plane.lab.machine(name).run(command);
      const [queued, synced] = ['queued_timestamp', 'timestamp'].map((end) =>
        readMetric(stdout, `kubeproxy_sync_proxy_rules_last_${end}_seconds`),
      );
      if (queued === undefined || synced === undefined)
        return this.#mayHang() ? [] : [`${name}: kube-proxy does not answer`];
      const lateS = queued - synced;
      return lateS > 0 ? [`${name}: kube-proxy has not written for ${lateS.toFixed(1)} s`] : [];
    });
  }
}

function listPowered({ masters }: ControlPlane): string[] {
  return masters.filter(({ hasPower }) => hasPower).map(({ name }) => name);
}

/** Of the family that the lab has. */
function readMetric(text: string, name: string): number | undefined {
  const line = text.split('\n').find((one) => one.startsWith(`${name}{ip_family="IPv4"}`));
  return line === undefined ? undefined : Number(line.split(' ').at(-1));
}
