import { type Endpoint, sortEndpoints } from '../../address/endpoint.ts';
import { type Balance, listApiservers } from '../rules/balance.ts';

/** TCP packets of balanced connections, as they are where a chain sees them. */
export interface Packet {
  /** Null where it may be anybody. */
  readonly source: Endpoint | null;
  /** Null alike. */
  readonly destination: Endpoint | null;
  /** The states that conntrack may give it, as `--ctstate` names them. */
  readonly states: readonly string[];
  /** Whether its connection has been sent elsewhere than to the VIP it asked for. */
  readonly isTranslated: boolean;
  /** Whether it came by an interface other than `lo`. */
  readonly isFromOutside: boolean;
}

const anyPacket = { source: null, destination: null, isTranslated: false, isFromOutside: true } as const;

/**
 * The packets that a hook in one of the kernel's chains has to see. Translation comes in between: until then a packet asks for the
 * VIP, afterwards for an apiserver, or for the ClusterIP. Chains that have no hook of ours have none. Pure.
 */
export function listPackets(chain: string, balances: readonly Balance[]): Packet[] {
  switch (chain) {
    case 'PREROUTING':
    case 'OUTPUT':
      return balances.map(({ vip }) => ({
        ...anyPacket,
        destination: vip,
        states: ['NEW'],
        isFromOutside: chain === 'PREROUTING',
      }));
    case 'POSTROUTING':
      return listEnds(balances).map((destination) => ({
        ...{ source: null, destination, states: ['NEW'], isTranslated: true, isFromOutside: false },
      }));
    case 'FORWARD':
      return listEnds(balances).flatMap((end) => [
        { ...anyPacket, destination: end, states: ['NEW', 'ESTABLISHED'], isTranslated: true },
        { ...anyPacket, source: end, states: ['ESTABLISHED'], isTranslated: true },
      ]);
    case 'INPUT':
      return listApiservers(balances).map((source) => ({
        ...anyPacket,
        source,
        states: ['INVALID'],
      }));
    default:
      return [];
  }
}

/** Where connections end; null for wherever kube-proxy's chain leads, where nothing else is known. */
function listEnds(balances: readonly Balance[]): (Endpoint | null)[] {
  const known = balances.flatMap(({ route, apiservers = [] }) => [
    ...(route.kind === 'translate' ? route.backends : []),
    ...apiservers,
  ]);
  const isUnknown = balances.some(
    ({ route, apiservers = [] }) => route.kind === 'jump' && apiservers.length === 0,
  );
  return isUnknown ? [null] : sortEndpoints(known);
}
