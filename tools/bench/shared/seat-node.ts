import type { Service } from '../../lab/machines/service.ts';
import { vipnatCommand } from '../../lab/components/agent.ts';
import { runShell } from '../../lab/machines/machine.ts';

const runDir = '/run/vipnat-lb';

/** As docs/services-operate.md starts it. */
const keepalivedScript = `
for try in $(seq 1200); do [ ! -e ${runDir}/keepalived.conf ] || break; sleep 0.1; done
rm -f ${runDir}/keepalived.pid ${runDir}/vrrp.pid
exec keepalived --vrrp --dont-fork --log-console --use-file ${runDir}/keepalived.conf \\
  --pid ${runDir}/keepalived.pid --vrrp_pid ${runDir}/vrrp.pid`;

/** What has a node hold seats, on the same machine. */
export interface SeatNode {
  readonly balancer: Service;
  readonly keepalived: Service;
}

/** Starts both, as after a boot. */
export async function startSeatNode({ balancer, keepalived }: SeatNode, kubeconfig: string): Promise<void> {
  const { machine } = balancer;
  const options = ['--kubeconfig', kubeconfig, '--node-name', machine.name, '--run-dir', runDir];
  await machine.run(['rm', '-rf', runDir]);
  await balancer.start(vipnatCommand('balancer', ...options));
  await keepalived.start(['sh', '-ec', keepalivedScript]);
}

/** How many lines of the configuration that keepalived has of the balancer name an address of a network, by its beginning. */
export async function countConfigured(
  { balancer: { machine } }: SeatNode,
  beginning: string,
): Promise<number> {
  const { stdout } = await machine.run(['grep', '-cF', beginning, `${runDir}/keepalived.conf`]);
  return Number(stdout);
}

/** Ends a service with its children, all at once: a keepalived whose parent is gone would take its leave of the others. */
export async function killGroup(service: Service): Promise<void> {
  if (!(await service.isRunning())) return;
  await runShell(service.machine, `kill -KILL -${service.readPid()} 2>/dev/null || true`);
}
