import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { describeUnread } from '../../lib/kernel/real/unread.ts';
import { type PlannedState } from '../decide/offline.ts';

/** What both `plan --json` and `status --json` say, version 1: fields are added, never renamed. */
export interface HostAnswer {
  readonly version: 1;
  readonly node: string;
  readonly kubeProxy: object;
  /** In the order in which they were given. */
  readonly vips: readonly object[];
  readonly inSync: boolean;
  readonly sysctls: readonly object[];
  /** What an agent does about this host's own connections to VIPs; not part of `inSync`. */
  readonly localRoutes: readonly object[];
  readonly refused: readonly string[];
  /** What could not be read, with its error's code. */
  readonly unread: readonly object[];
}

/** What was seen and decided, without what to write. */
export function toHostAnswer(
  { decisions, plan, missingSwitches, sourceRoutes, sources, refused, observation }: PlannedState,
  node: string,
): HostAnswer {
  const { proxyMode, dialect, addresses } = observation;
  return {
    version: 1,
    node,
    kubeProxy: { mode: proxyMode.value, backend: dialect.value, reason: proxyMode.seenIn },
    vips: decisions.map(({ vip, way, reason, clusterIp, backends, affinitySeconds }) => ({
      vip: formatEndpoint(vip),
      family: vip.family,
      held: addresses.some(({ address }) => address === vip.address),
      way,
      reason,
      clusterIp,
      backends: backends.map(formatEndpoint),
      affinitySeconds,
      localSource: sources.get(vip.address) ?? null,
    })),
    inSync: plan.transactions.length === 0 && missingSwitches.length === 0,
    sysctls: missingSwitches.map(({ name, command }) => ({ name, value: '0', wanted: '1', command })),
    localRoutes: sourceRoutes.map(({ kind, route, reason, command }) => ({
      kind,
      ...route,
      reason,
      command,
    })),
    refused: [...new Set(refused)],
    unread: describeUnread(observation.unread),
  };
}
