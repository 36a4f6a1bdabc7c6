import { apiserverPort, clusterIps, masters, worker } from '../../test/support/network/layout.ts';
import { toUrlHost } from '../components/command.ts';
import { vipnatCommand } from '../components/agent.ts';
import { type Lab } from './lab.ts';
import { type Machine } from '../machines/machine.ts';
import { type KubeProxyMode } from '../settings/options.ts';
import { waitUntil } from '../machines/service.ts';

/** Three apiservers at once on two cores take 6 s, in virtual machines 30. */
const apiserverLimitMs = 120_000;

/** An apiserver is an endpoint 10 s after its start at the latest, and kube-proxy needs another second; but machines of their own are slow. */
const convergeLimitMs = 120_000;

const nodeNames = [...masters, worker].map(({ name }) => name);
const masterNames = masters.map(({ name }) => name);

/** Waits until every apiserver says that it is ready. */
export async function waitForApiservers(lab: Lab, names: readonly string[] = masterNames): Promise<void> {
  await Promise.all(
    names.map((name) =>
      waitUntil(() => isAnswered(lab.machine(name), '127.0.0.1', apiserverPort), {
        what: 'the apiserver is ready',
        service: lab.service(name, 'kube-apiserver'),
        limitMs: apiserverLimitMs,
      }),
    ),
  );
}

/** Waits until one master holds the VIP. */
export async function waitForHolder(lab: Lab): Promise<void> {
  await waitUntil(async () => (await lab.listHolders()).length === 1, {
    what: 'a master holds the VIP',
    service: lab.service('m1', 'keepalived'),
    limitMs: convergeLimitMs,
  });
}

/** Waits until the ClusterIP is answered on every node: kube-proxy has written its rules. */
export async function waitForServices(lab: Lab, names: readonly string[] = nodeNames): Promise<void> {
  const clusterIp = clusterIps[lab.options.family];
  await Promise.all(
    names.map((name) =>
      waitUntil(() => isAnswered(lab.machine(name), clusterIp, 443), {
        what: `${clusterIp}:443 is answered`,
        service: lab.service(name, 'kube-proxy'),
        limitMs: convergeLimitMs,
      }),
    ),
  );
}

/** Waits until a node's kube-proxy says that it runs in a mode. */
export async function waitForProxyMode(lab: Lab, name: string, mode: KubeProxyMode): Promise<void> {
  const metrics = lab.options.family === 'ipv6' ? '[::1]:10249' : '127.0.0.1:10249';
  const question = ['curl', '--silent', '--max-time', '2', `http://${metrics}/proxyMode`];
  await waitUntil(async () => (await lab.machine(name).run(question)).stdout === mode, {
    what: `kube-proxy runs in ${mode} mode`,
    service: lab.service(name, 'kube-proxy'),
    limitMs: convergeLimitMs,
  });
}

/** Waits until every agent balances the VIP over all apiservers, and has nothing left to do. */
export async function waitForBalance(lab: Lab, count = masters.length): Promise<void> {
  await Promise.all(masterNames.map((name) => waitForAgent(lab, name, { count })));
}

/** Waits until one master's agent does, for the VIP on other ports as well where some are given. */
export async function waitForAgent(
  lab: Lab,
  master: string,
  { count = masters.length, ports = [apiserverPort] }: { count?: number; ports?: readonly number[] } = {},
): Promise<void> {
  const vips = ports.flatMap((port) => ['--vip', `${toUrlHost(lab.vip)}:${port}`]);
  await waitUntil(() => isBalanced(lab, master, { vips, count }), {
    what: `the VIP is balanced over ${count} apiservers`,
    service: lab.service(master, 'vipnat'),
    limitMs: convergeLimitMs,
  });
}

async function isBalanced(
  lab: Lab,
  master: string,
  { vips, count }: { vips: readonly string[]; count: number },
): Promise<boolean> {
  const command = vipnatCommand('check', ...vips);
  const { exitCode, stdout } = await lab.machine(master).run(command);
  return exitCode === 0 && stdout.includes(`${count} apiserver`);
}

async function isAnswered(machine: Machine, address: string, port: number): Promise<boolean> {
  const url = `https://${toUrlHost(address)}:${port}/readyz`;
  const { stdout } = await machine.run(['curl', '--silent', '--insecure', '--max-time', '2', url]);
  return stdout === 'ok';
}
