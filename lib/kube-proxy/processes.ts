import { type HostProcess } from '../kernel/host/processes.ts';

/** Programs that are kube-proxy, or have it inside, as the kernel names them. */
const proxyNames: readonly string[] = ['kube-proxy', 'hyperkube', 'kubelite', 'k3s-server', 'k3s-agent'];

/** Those that are kube-proxy, or have it inside. Pure. */
export function findProxies(processes: readonly HostProcess[]): HostProcess[] {
  return processes.filter(({ name }) => proxyNames.includes(name));
}
