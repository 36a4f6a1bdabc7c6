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

/** Whether an end was seen, and another apiserver can take over, on another host if there is any. Pure. */
export function isEndConfirmed(one: EndpointHealth, others: readonly EndpointHealth[]): boolean {
  if (one.history.endedAt === null) return false;
  const witnesses = others.filter(isUp);
  if (witnesses.some((witness) => one.isLocal || !witness.isLocal)) return true;
  return witnesses.length > 0 && !others.some((other) => !other.isLocal && other.state !== 'dead');
}

function isUp({ state, unconfirmedFailure, history }: EndpointHealth): boolean {
  return (
    state === 'ready' && unconfirmedFailure === null && history.connect === 'open' && history.endedAt === null
  );
}
