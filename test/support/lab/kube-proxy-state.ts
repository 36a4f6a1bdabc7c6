import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { isVirtual } from '../../../tools/lab/control-plane/make.ts';
import type { Machine } from '../../../tools/lab/machines/machine.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { WaitedTooLong } from '../jest/waiting.ts';
import { apiserverPort, masters } from '../network/layout.ts';

const failureMetric = 'kubeproxy_sync_proxy_rules_iptables_restore_failures_total';

/** kube-proxy tries again 30 s after a restore that failed; with some seconds for everything else. */
const nextSyncMs = 35_000;

/** There a sync takes 4 to 5 s on idle processors, and a handshake up to a second. */
const nextVirtualSyncMs = 120_000;

const saves = ['iptables-nft-save', 'iptables-legacy-save', 'ip6tables-nft-save', 'ip6tables-legacy-save'];
let services = 0;

/** How long it takes at most until kube-proxy on a node has tried once more, in milliseconds. */
export function limitOfSync({ options }: Lab, node: string): number {
  return isVirtual(options, node) ? nextVirtualSyncMs : nextSyncMs;
}

/** How many of the running kube-proxy's restores failed; it has no such figure before the first one, or in other modes. */
export async function countRestoreFailures(machine: Machine): Promise<number> {
  const { stdout } = await machine.run(['curl', '--silent', 'http://127.0.0.1:10249/metrics']);
  return stdout
    .split('\n')
    .filter((line) => line.startsWith(failureMetric))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

/** Rules of ours that lead into a chain of kube-proxy's. */
export async function listReferences(machine: Machine): Promise<string[]> {
  return (await readRules(machine)).filter((line) => /^-A VIPNAT.* -j KUBE-/.test(line));
}

/** The chains of Services and their endpoints that are left. */
export async function listServiceChains(machine: Machine): Promise<string[]> {
  return (await readRules(machine)).filter((line) => /^:KUBE-(?:SVC|SEP)-/.test(line));
}

/**
 * Creates a Service whose endpoints are the apiservers, and waits until a node reaches one through its ClusterIP.
 * Answers after how long, in milliseconds; null when that does not happen before kube-proxy's next try.
 */
export async function timeNewService(lab: Lab, node: string): Promise<number | null> {
  const machine = lab.machine(node);
  const limitMs = limitOfSync(lab, node);
  const name = `probe-${(services += 1)}`;
  const started = performance.now();
  const address = await createService(lab, name);
  const host = address.includes(':') ? `[${address}]` : address;
  while (performance.now() - started < limitMs) {
    const answer = await machine.run(['curl', '-sk', '--max-time', '2', `https://${host}/readyz`]);
    if (answer.stdout === 'ok') return performance.now() - started;
    await sleep(100);
  }
  return null;
}

export async function waitFor(isSo: () => Promise<boolean>, timeMs: number): Promise<void> {
  const until = performance.now() + timeMs;
  while (!(await isSo())) {
    if (performance.now() > until) throw new WaitedTooLong(`not within ${timeMs / 1000} s`);
    await sleep(200);
  }
}

async function createService(lab: Lab, name: string): Promise<string> {
  const { family } = lab.options;
  const service = (await lab.api.create('/api/v1/namespaces/default/services', {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name },
    spec: { ports: [{ name: 'https', port: 443, targetPort: apiserverPort }] },
  })) as { spec: { clusterIP: string } };
  await lab.api.create('/apis/discovery.k8s.io/v1/namespaces/default/endpointslices', {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, labels: { 'kubernetes.io/service-name': name } },
    addressType: family === 'ipv6' ? 'IPv6' : 'IPv4',
    ports: [{ name: 'https', port: apiserverPort, protocol: 'TCP' }],
    endpoints: masters.map(({ addresses }) => ({ addresses: [addresses[family]] })),
  });
  return service.spec.clusterIP;
}

async function readRules(machine: Machine): Promise<string[]> {
  const { stdout } = await machine.run(['sh', '-c', saves.join('; ')]);
  return stdout.split('\n');
}
