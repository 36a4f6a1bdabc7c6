import type { Family, Endpoint } from '../../../lib/net.ts';
import type { IptablesDialect } from '../../../lib/kernel/port.ts';
import type { FakeKernel } from '../fakes/kernel.ts';
import { jumps, renderUpdate, renderCleanup } from './rules.ts';
import { kubernetesService } from '../../../lib/kube-proxy/read.ts';

/** Where one kube-proxy of iptables mode writes. */
interface ProxySource {
  readonly family: Family;
  readonly dialect: IptablesDialect;
}

/** The ClusterIP of default/kubernetes by family. */
export const clusterIps: Readonly<Record<Family, string>> = { ipv4: '10.96.0.1', ipv6: 'fd00:10:96::1' };

const podNetworks: Readonly<Record<Family, string>> = { ipv4: '10.244.0.0/16', ipv6: 'fd00:10:244::/56' };

/**
 * One full update of kube-proxy in iptables mode for default/kubernetes: canaries, its jumps in front where they
 * are missing, and one restore. Without endpoints the service is rejected in the filter table and its chain
 * deleted. Throws TOOL_FAILED when a jump of somebody else's pins that chain; the filter table is then written.
 */
export function syncKubeProxy(
  kernel: FakeKernel,
  { family, dialect }: ProxySource,
  endpoints: readonly Endpoint[],
): void {
  const declared = ['mangle', 'filter', 'nat'].map(
    (table) => `*${table}\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT`,
  );
  kernel.run(family, dialect, `${declared.join('\n')}\n`);
  for (const jump of jumps) insertJump(kernel, { family, dialect }, jump);
  const service = {
    service: kubernetesService,
    clusterIp: clusterIps[family],
    endpoints: endpoints.filter((endpoint) => endpoint.family === family),
  };
  const existing = listChains(kernel.show(family, dialect), 'nat');
  kernel.run(family, dialect, renderUpdate([service], existing, podNetworks[family]));
}

/** What `kube-proxy --cleanup` does, or a switch to another mode. Throws TOOL_FAILED when its chain is pinned. */
export function removeKubeProxy(kernel: FakeKernel, { family, dialect }: ProxySource): void {
  for (const jump of jumps) deleteJump(kernel, { family, dialect }, jump);
  for (const table of ['filter', 'nat'] as const)
    kernel.run(family, dialect, renderCleanup(table, listChains(kernel.show(family, dialect), table)));
}

type Jump = (typeof jumps)[number];

function insertJump(kernel: FakeKernel, { family, dialect }: ProxySource, [table, chain, rule]: Jump): void {
  const target = rule.slice(rule.lastIndexOf(' ') + 1);
  const text = kernel.show(family, dialect);
  if (listRules(text, table).includes(`-A ${chain} ${rule}`)) return;
  const declaration = listChains(text, table).includes(target) ? '' : `:${target} - [0:0]\n`;
  kernel.run(family, dialect, `*${table}\n${declaration}-I ${chain} ${rule}\nCOMMIT\n`);
}

function deleteJump(kernel: FakeKernel, { family, dialect }: ProxySource, [table, chain, rule]: Jump): void {
  if (!listRules(kernel.show(family, dialect), table).includes(`-A ${chain} ${rule}`)) return;
  kernel.run(family, dialect, `*${table}\n-D ${chain} ${rule}\nCOMMIT\n`);
}

function listChains(save: string, table: string): string[] {
  return listLines(save, table).flatMap((line) => /^:(\S+)/.exec(line)?.[1] ?? []);
}

function listRules(save: string, table: string): string[] {
  return listLines(save, table).filter((line) => line.startsWith('-A '));
}

/** The lines between `*table` and its COMMIT. */
function listLines(save: string, table: string): string[] {
  const lines = save.split('\n');
  const start = lines.indexOf(`*${table}`);
  return start === -1 ? [] : lines.slice(start, lines.indexOf('COMMIT', start));
}
