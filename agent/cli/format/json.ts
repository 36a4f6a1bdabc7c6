import { formatEndpoint } from '../../../lib/address/endpoint.ts';
import { toolName } from '../../../lib/kernel/tool-name.ts';
import { type PlannedState } from '../../offline.ts';

/** `plan --format json`, version 1: fields are added, never renamed. Ends with a newline. */
export function formatJson(
  { decisions, plan, missingSwitches, refused, observation }: PlannedState,
  node: string,
): string {
  const { proxyMode, backend, addresses } = observation;
  const answer = {
    version: 1,
    node,
    kubeProxy: { mode: proxyMode.value, backend: backend.value, reason: proxyMode.seenIn },
    vips: decisions.map(({ vip, way, reason, clusterIp, backends, affinitySeconds }) => ({
      vip: formatEndpoint(vip),
      family: vip.family,
      held: addresses.some(({ address }) => address === vip.address),
      way,
      reason,
      clusterIp,
      backends: backends.map(formatEndpoint),
      affinitySeconds,
    })),
    inSync: plan.transactions.length === 0 && missingSwitches.length === 0,
    sysctls: missingSwitches.map(({ name }) => ({ name, value: '0', wanted: '1' })),
    refused: [...new Set(refused)],
    transactions: plan.transactions.map(({ family, backend: toolBackend, input }) => ({
      tool: toolName(family, toolBackend, 'restore'),
      family,
      input,
    })),
  };
  return `${JSON.stringify(answer, null, 2)}\n`;
}
