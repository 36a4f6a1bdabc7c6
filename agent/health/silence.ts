import { type EndpointHealth } from './endpoint-health.ts';
import { type ProbeHistory } from '../probe/probe-history.ts';

/** Then the packets of open connections vanish too, and their clients would wait for minutes. */
const timeoutsToBeSilent = 4;

/** Whether it is kept in use although its packets vanish: no other host is heard either. */
export function isSilent(one: EndpointHealth): boolean {
  return one.state !== 'dead' && one.unconfirmedFailure !== null && hasGoneSilent(one);
}

/** Its connections too: neither new ones nor, since those are not, a question on the open one are answered. */
export function hasGoneSilent({ history }: EndpointHealth): boolean {
  return history.consecutiveTimeouts >= timeoutsToBeSilent && !answersOnOpen(history);
}

/**
 * Whether only new connections vanish: a connection table that is full drops them here, and a firewall anywhere. What
 * is open lives.
 */
export function answersOnOpen({
  consecutiveTimeouts,
  unanswered,
  answeredAt,
  troubleSince,
}: ProbeHistory): boolean {
  return consecutiveTimeouts > 0 && unanswered === 0 && answeredAt >= troubleSince;
}
