/**
 * Whether an apiserver whose process answers nothing may be taken out of use for it.
 *
 * Goal: a frozen apiserver is out within three seconds.
 * Tension: so short a silence can have many causes, and some of them, as a network or a hypervisor that stalls, meet several
 * apiservers.
 * Compromise: it counts beside another apiserver that answered well and within a second all the time. Who was silent too,
 * is slow or recovers is no witness. Without one nothing changes: three questions without an answer decide, as ever.
 */
import { type EndpointHealth } from './endpoint-health.ts';

/** What an apiserver comes to by a confirmed freeze. */
export const freezeVerdict = {
  state: 'draining',
  reason: 'its host accepts connections, but its process answers nothing on them for 2.5 s',
} as const;

/** What stalls several of them has reached the others by then. The questions of the next second and a half are answered in time. */
const witnessLagMs = 1000;

/** Whether a freeze was seen, and a witness answered all the time. Pure. */
export function isFreezeConfirmed(
  one: EndpointHealth,
  others: readonly EndpointHealth[],
  now: number,
): boolean {
  const { isFrozen, frozenSince } = one.history;
  if (!isFrozen || one.unconfirmedFailure !== null || now < one.ejectionGraceUntil) return false;
  const witnesses = others.filter((other) => isPromptThroughout(other, frozenSince));
  if (witnesses.some((witness) => one.isLocal || !witness.isLocal)) return true;
  // The apiserver on this host says nothing about the network. It has to do where no other host is left to ask.
  return witnesses.length > 0 && !others.some((other) => !other.isLocal && isLeftToAsk(other));
}

function isPromptThroughout({ state, history }: EndpointHealth, since: number): boolean {
  const { isFrozen, promptSince, promptAt } = history;
  return state !== 'dead' && !isFrozen && promptSince <= since && promptAt >= since + witnessLagMs;
}

function isLeftToAsk({ state, history }: EndpointHealth): boolean {
  return state !== 'dead' && !(state === 'draining' && history.isFrozen);
}
