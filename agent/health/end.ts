/**
 * Whether an apiserver whose process has closed the connections of its probes may be taken out of use for it.
 *
 * Goal: a process that ends gets no new connection that its kernel still accepts.
 * Tension: until the kernel closes the listener, it accepts connects, and resets them later. So no connect shows the end. But what
 * closes connections may be the network.
 * Compromise: two connections that were well for seconds are closed within a tenth of a second, and another apiserver is ready.
 * It is out only until it answers a question again.
 */
import { type EndpointHealth } from './endpoint-health.ts';

/** What an apiserver comes to by a confirmed end. */
export const endVerdict = {
  state: 'draining',
  reason: 'its process closed both connections of the probes',
} as const;

/** What closes connections on the way closes each at its next packet. The last question is a second old at most. */
const sharedMs = 1000;

/** So long after an end, a refused connect would have followed. */
const lastingMs = 1000;

/**
 * Whether an end was seen, and another apiserver can take over, on another host if there is any. Not if those of several hosts are seen
 * together: the first one alone counts until its host refuses connects. Pure.
 */
export function isEndConfirmed(one: EndpointHealth, all: readonly EndpointHealth[]): boolean {
  if (!one.history.isEnded) return false;
  // A process may have an endpoint of each family, and none replaces one of the other family.
  const others = all.filter(({ endpoint }) => endpoint.family === one.endpoint.family);
  if (others.some((other) => isShared(one, other))) return false;
  const witnesses = others.filter(isUp);
  if (witnesses.some((witness) => one.isLocal || !witness.isLocal)) return true;
  return witnesses.length > 0 && !others.some((other) => !other.isLocal && other.state !== 'dead');
}

/** Whether an end has lasted: its host accepts connects, and nothing has answered on them. Pure. */
export function isEndLasting({ history: { isEnded, endedAt, connectedAt } }: EndpointHealth): boolean {
  return isEnded && connectedAt - endedAt >= lastingMs;
}

/** Whether the network between may have closed the connections of both. */
function isShared(one: EndpointHealth, other: EndpointHealth): boolean {
  const isRemote = !one.isLocal && !other.isLocal;
  const betweenMs = Math.abs(one.history.endedAt - other.history.endedAt);
  return isRemote && other.history.connect === 'open' && betweenMs <= sharedMs;
}

function isUp({ state, unconfirmedFailure, history }: EndpointHealth): boolean {
  return state === 'ready' && unconfirmedFailure === null && history.connect === 'open' && !history.isEnded;
}
