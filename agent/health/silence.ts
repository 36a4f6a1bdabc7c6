/**
 * What an apiserver that answers no connect comes to, beside getting no new connection.
 *
 * Goal: whose host is gone has its open connections reset, so that clients connect again.
 * Tension: a reset cannot be taken back. A full accept queue, a guest that is stunned and a network that fails over look the
 * same for seconds, and TCP goes on after each. What looks so at several apiservers at once is rather the network's.
 * Compromise: open connections wait until nothing of that explains the silence, and those of one half of the apiservers wait longer.
 */
import { type EndpointHealth } from './endpoint-health.ts';
import { type ProbeHistory } from '../probe/probe-history.ts';

/** A second. By then a question on the open connection has been asked, too. */
const timeoutsToBeSilent = 4;

/**
 * A link that is bonded by LACP fails over within 3 s (IEEE 802.1AX, short timeout), and a guest is stunned for up to 2 s by a snapshot.
 * After both a SYN may wait for a second (RFC 6298).
 */
const certainMs = 5000;

/** Milliseconds in which half of the apiservers lose their open connections at most. Others are silent for longer first. */
export const lossWindowMs = 60_000;
const undoubtedMs = 30_000;

/** Whether it is kept in use although its packets vanish: no other host is heard either. Pure. */
export function isSilent(one: EndpointHealth): boolean {
  return one.state !== 'dead' && one.unconfirmedFailure !== null && hasGoneSilent(one.history);
}

/** Whether it has been silent for so long that nothing but a loss explains it: its host's, or this host's of all others. Pure. */
export function isLost({ history }: Pick<EndpointHealth, 'history'>): boolean {
  return hasGoneSilent(history) && history.silentMs >= certainMs;
}

/** Whose losses count beside one's own. */
export interface Beside {
  readonly others: readonly EndpointHealth[];
  readonly now: number;
  /** When those who are listed no more lost theirs lately. */
  readonly goneAt: readonly number[];
}

/** Whether its open connections are lost, and when that was found. Pure. */
export function findStale(
  { hasStaleConnections, staleAt, history }: EndpointHealth,
  beside: Beside,
): Pick<EndpointHealth, 'hasStaleConnections' | 'staleAt'> {
  return hasStaleConnections || !isLost({ history }) || isDeferred(history, beside)
    ? { hasStaleConnections, staleAt }
    : { hasStaleConnections: true, staleAt: beside.now };
}

/** Whether half of all have lost theirs lately. */
function isDeferred({ silentMs }: ProbeHistory, { others, now, goneAt }: Beside): boolean {
  const lossesAt = [...others.map(({ staleAt }) => staleAt), ...goneAt];
  const lately = lossesAt.filter((at) => now - at < lossWindowMs).length;
  const half = Math.max(1, Math.floor((lossesAt.length + 1) / 2));
  return lately >= half && silentMs < undoubtedMs;
}

/** Its connections too: neither new ones nor, since those are not, a question on the open one are answered. */
function hasGoneSilent(history: ProbeHistory): boolean {
  return history.consecutiveTimeouts >= timeoutsToBeSilent && !answersOnOpen(history);
}

/**
 * Whether only new connections vanish: a connection table that is full drops them here, and a firewall anywhere. What
 * is open lives. Pure.
 */
export function answersOnOpen({
  consecutiveTimeouts,
  unanswered,
  answeredAt,
  troubleSince,
}: ProbeHistory): boolean {
  return consecutiveTimeouts > 0 && unanswered === 0 && answeredAt >= troubleSince;
}
