import { type Endpoint, formatEndpoint, parseEndpoint } from '../../lib/address/endpoint.ts';
import { type LocalAddress } from '../../lib/kernel/port.ts';
import { type Decision } from './decision.ts';
import { type Health, type HealthView } from '../health/usable.ts';

/** What the judgement rests on. */
export interface ServingBasis {
  readonly decisions: readonly Pick<Decision, 'vip' | 'backends'>[];
  readonly addresses: readonly LocalAddress[];
  readonly health: HealthView;
  /** Whether this host is drained, and another node is to hold the virtual IPs, if one can. False when left out. */
  readonly isLeaving?: boolean;
  /** Whether anybody here takes connections to a VIP that is left to its holder. */
  readonly isListening: (vip: Endpoint) => boolean;
}

/**
 * Whether this node may hold the virtual IPs: it serves one of them, balanced or by its own apiserver that
 * listens on the VIP's port, or no other node is known to do better. A dead apiserver among live ones changes nothing; when all refuse connections, moving
 * would only add to it. Pure.
 */
export function canServe({
  decisions,
  addresses,
  health,
  isListening,
  isLeaving = false,
}: ServingBasis): boolean {
  const local = new Set(addresses.map(({ address }) => address));
  const facts = { local, health, isListening };
  if (isLeaving && decisions.length > 0 && decisions.every(({ vip }) => canLeave(vip, facts))) return false;
  return decisions.length === 0 || decisions.some((decision) => canServeVip(decision, facts));
}

interface Facts extends Pick<ServingBasis, 'health' | 'isListening'> {
  /** This host's addresses. */
  readonly local: ReadonlySet<string>;
}

function canServeVip(
  { vip, backends }: Pick<Decision, 'vip' | 'backends'>,
  { local, health, isListening }: Facts,
): boolean {
  const isAlive = (endpoint: Endpoint) => {
    const {
      state = 'ready',
      staleConnections = 'none',
      isLost = false,
    } = health.get(formatEndpoint(endpoint)) ?? {};
    // Short silence moves no VIP: a bond that fails over keeps keepalived's adverts from the others, too.
    return !isLost && (state !== 'dead' || staleConnections === 'half-open');
  };
  if (backends.some(isAlive)) return true;
  const probed = listProbed(vip, health);
  const isLocal = ({ endpoint }: Probed) => local.has(endpoint.address);
  // What is balanced over gets there by its own port; what is left to the holder comes by the VIP's.
  const canAnswer = backends.length > 0 || isListening(vip);
  if (canAnswer && probed.some((one) => isLocal(one) && isAlive(one.endpoint))) return true;
  return !probed.some((one) => !isLocal(one) && mayServeOthers(one.health));
}

/** Whether an apiserver on another host takes new connections: one that is drained too would give the VIP back. */
function canLeave({ family }: Pick<Endpoint, 'family'>, { local, health }: Facts): boolean {
  return listProbed({ family }, health).some(
    ({ endpoint, health: { state, isSilent = false } }) =>
      !local.has(endpoint.address) && !isSilent && (state === 'ready' || state === 'warming'),
  );
}

/** A refusal is for everybody; silence may be ours alone. */
function mayServeOthers({ state, staleConnections }: Health): boolean {
  return state !== 'dead' || staleConnections !== 'none';
}

interface Probed {
  readonly endpoint: Endpoint;
  readonly health: Health;
}

function listProbed({ family }: Pick<Endpoint, 'family'>, view: HealthView): Probed[] {
  return [...view].flatMap(([text, health]) => {
    const endpoint = parseEndpoint(text);
    return endpoint?.family === family ? [{ endpoint, health }] : [];
  });
}
