import { formatEndpoint } from '../../lib/address/endpoint.ts';
import type { HostLook, LocalRouteChange } from '../../agent/main.ts';

/** Something about this host's own connections to a VIP that a person should know, with the way out. */
export interface LocalClientWarning {
  /** A sentence without its full stop. */
  readonly text: string;
  /** What mends it, as a command for a shell; null where there is none. */
  readonly command: string | null;
}

/**
 * What is wrong with the local routes. A missing one is an agent's to add, so without an agent nothing is said of it. Not
 * drift: rules do not depend on it. Pure.
 */
export function findLocalClientWarnings(
  { sourceRoutes, localRoutes }: Pick<HostLook, 'sourceRoutes' | 'localRoutes'>,
  isAgentHere: boolean,
): LocalClientWarning[] {
  if (localRoutes === null) {
    return [
      {
        text: 'vipnat could not read the routes of table local, so it cannot check the local clients of this host',
        command: null,
      },
    ];
  }
  return sourceRoutes.filter(({ kind }) => kind === 'remove' || isAgentHere).map(describeChange);
}

function describeChange({
  kind,
  route: { address, source },
  reason,
  command,
}: LocalRouteChange): LocalClientWarning {
  const text =
    kind === 'add'
      ? `this host connects to ${address} from ${address} itself: these connections hang when the VIP moves`
      : `vipnat left a local route behind: to ${address} from ${source} (${reason})`;
  return { text, command };
}

/** `connects to 10.0.0.50:6443 from 10.0.0.11` for each VIP that is here and has another source. Pure. */
export function describeSources({ decisions, sources }: Pick<HostLook, 'decisions' | 'sources'>): string[] {
  return decisions.flatMap(({ vip }) => {
    const source = sources.get(vip.address);
    return source === undefined || source === vip.address
      ? []
      : [`connects to ${formatEndpoint(vip)} from ${source}`];
  });
}
