/** What a Service asks for and does not get, and what its clients lose on this node: sentences for the log. */
import { nameTunnelFilter } from '../../lib/kernel/real/strict-tunnels.ts';
import { findUnknownMethod } from '../../lib/services/methods.ts';
import { type Service } from '../../lib/services/services.ts';
import { readAnnotation, readDuration } from '../../lib/services/wishes.ts';
import { quoteTenant } from '../../lib/text/printable.ts';
import { describeTaken } from './taken-ports.ts';
import { type BalancedService, type Place, type PortBalance } from './balanced-service.ts';

/** What the owner of a Service asks for, and does not get: a sentence each. `malformed` are its source ranges that are none. Pure. */
export function listRemarks({ service, taken }: BalancedService, malformed: readonly string[]): string[] {
  const way = readAnnotation(service, 'way') ?? 'direct';
  const method = findUnknownMethod(service);
  const name = `${service.metadata.namespace}/${service.metadata.name}`;
  const ask = (what: string, text: string, effect: string) =>
    `${name} asks for the ${what} ${quoteTenant(text)}, which is not a duration: ${effect}`;
  const drain = readDuration(service, 'drainTimeout').malformed;
  const start = readDuration(service, 'slowStart').malformed;
  const [range] = malformed;
  return [
    ...describeTaken(service, taken ?? new Map()),
    ...(range === undefined
      ? []
      : [
          `${name} has ${malformed.length} source range${malformed.length === 1 ? '' : 's'} that vipnat cannot read, such as ${quoteTenant(range)}: no client comes in by ${malformed.length === 1 ? 'it' : 'them'}`,
        ]),
    ...(drain === null ? [] : [ask('drain timeout', drain, 'open connections stay until their pod is gone')]),
    ...(start === null
      ? []
      : [ask('slow start', start, 'a new pod gets its whole share of connections immediately')]),
    ...(way === 'direct'
      ? []
      : [
          `${name} asks for the balancing mode ${quoteTenant(way)}, which vipnat does not have: it is balanced directly`,
        ]),
    ...(method === null
      ? []
      : [
          `${name} asks for the method ${quoteTenant(method)}, which vipnat does not have: pods are chosen at random`,
        ]),
  ];
}

/** Of a Service with policy Local, and of the nodes with its endpoints. */
interface Losing {
  readonly ports: readonly PortBalance[];
  readonly nodeToAddress: ReadonlyMap<string, string>;
  readonly place: Place;
}

/** What clients of a Service with policy Local lose on this node. */
export function listLosses(service: Service, { ports, nodeToAddress, place }: Losing): string[] {
  const { namespace, name } = service.metadata;
  const dropping = describeDropping(ports, place);
  return [
    ...(dropping === null ? [] : [`${namespace}/${name}: ${dropping}`]),
    ...listAway(service, nodeToAddress, place),
  ];
}

/**
 * Why this node drops what other nodes send on to its pods, and what to do: a clause; null where it does not. Only policy Local has relays, and
 * the filter is IPv4's. Pure.
 */
export function describeDropping(
  ports: readonly PortBalance[],
  { strictTunnels = [] }: Pick<Place, 'strictTunnels'>,
): string | null {
  const isSentOn = ports.some(({ family, isHere, relay }) => family === 'ipv4' && isHere && relay !== null);
  if (!isSentOn || strictTunnels.length === 0) return null;
  const switches = strictTunnels.map((device) => `${nameTunnelFilter(device)}=2`).join(' ');
  return (
    `with policy Local, this node drops what other nodes send on by ${strictTunnels.join(' and ')} (rp_filter is 1). ` +
    `Run: sysctl -w ${switches}`
  );
}

/** Nodes that nothing is sent on to. */
function listAway(
  { metadata }: Service,
  nodeToAddress: ReadonlyMap<string, string>,
  { routed = new Set() }: Place,
): string[] {
  return [...nodeToAddress]
    .filter(([, address]) => routed.has(address))
    .map(
      ([node, address]) =>
        `${metadata.namespace}/${metadata.name} has policy Local, and the router has the route to ${address} of ${quoteTenant(node)}: ` +
        'vipnat sends no connections on to this node, as the router would send them back',
    );
}
