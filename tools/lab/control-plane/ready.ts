import { masters, worker, apiserverPort, clusterIps } from '../../../test/support/network/layout.ts';
import type { Lab } from './lab.ts';
import { waitUntil } from '../machines/service.ts';
import type { KubeProxyMode } from '../settings/options.ts';
import { toUrlHost } from '../components/command.ts';
import { vipnatCommand } from '../components/agent.ts';
import type { Machine } from '../machines/machine.ts';

/** Three apiservers at once on two cores take 6 s, in virtual machines 30; ten times that on a machine with other work. */
const apiserverLimitMs = 300_000;

/** An apiserver is an endpoint 10 s after its start at the latest, and kube-proxy needs another second; but machines of their own are slow. */
const convergeLimitMs = 300_000;

const nodeNames = [...masters, worker].map(({ name }) => name);
const masterNames = masters.map(({ name }) => name);

/** Waits until every apiserver says that it is ready. */
export async function waitForApiservers(lab: Lab, names: readonly string[] = masterNames): Promise<void> {
  await Promise.all(
    names.map((name) =>
      waitUntil(() => findObstacle(lab.machine(name), '127.0.0.1', apiserverPort), {
        what: 'the apiserver is ready',
        service: lab.service(name, 'kube-apiserver'),
        limitMs: apiserverLimitMs,
      }),
    ),
  );
}

/** Waits until one master holds the VIP. */
export async function waitForHolder(lab: Lab): Promise<void> {
  const findOther = async () => {
    const holders = await lab.listHolders();
    return holders.length === 1 ? null : `held by ${holders.length === 0 ? 'nobody' : holders.join(' and ')}`;
  };
  await waitUntil(findOther, {
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
      waitUntil(() => findObstacle(lab.machine(name), clusterIp, 443), {
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
  const findOther = async () => {
    const { exitCode, stdout } = await lab.machine(name).run(question);
    return stdout === mode ? null : `it says "${stdout}" (curl: ${exitCode})`;
  };
  await waitUntil(findOther, {
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
  await waitUntil(() => findImbalance(lab, master, { vips, count }), {
    what: `the VIP is balanced over ${count} apiservers`,
    service: lab.service(master, 'vipnat'),
    limitMs: convergeLimitMs,
    examine: () => examineMaster(lab, master, vips),
  });
}

async function findImbalance(
  lab: Lab,
  master: string,
  { vips, count }: { vips: readonly string[]; count: number },
): Promise<string | null> {
  const { exitCode, stdout, stderr } = await lab.machine(master).run(vipnatCommand('check', ...vips));
  if (exitCode === 0 && stdout.includes(`${count} apiserver`)) return null;
  return `check ended with ${exitCode}: ${stdout}\n${stderr}`;
}

/** What the agent says of itself, and which apiservers answer the master. */
async function examineMaster(lab: Lab, master: string, vips: readonly string[]): Promise<string> {
  const machine = lab.machine(master);
  const [status, ...apiservers] = await Promise.all([
    machine.run(vipnatCommand('status', ...vips)),
    ...masters.map(async ({ name, addresses }) => {
      const obstacle = await findObstacle(machine, addresses[lab.options.family], apiserverPort);
      return `the apiserver of ${name}, asked from ${master}: ${obstacle ?? 'ready'}`;
    }),
  ]);
  return [`status ended with ${status.exitCode}:`, status.stdout, status.stderr, ...apiservers].join('\n');
}

/** Why an apiserver behind an address is not ready; null when it is. */
async function findObstacle(machine: Machine, address: string, port: number): Promise<string | null> {
  const url = `https://${toUrlHost(address)}:${port}/readyz`;
  const words = ['curl', '--silent', '--show-error', '--insecure', '--max-time', '2', url];
  const { stdout, stderr } = await machine.run(words);
  return stdout === 'ok' ? null : `${stdout}\n${stderr}`;
}
