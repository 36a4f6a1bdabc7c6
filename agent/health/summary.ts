import { type EndpointHealth } from './endpoint-health.ts';
import { isEndLasting } from './end.ts';
import { isLost, isSilent } from './silence.ts';
import { type Health } from './usable.ts';
import { emptyHistory } from '../probe/probe-history.ts';

/** What decisions and people need to know of one apiserver's health. Pure. */
export function summarize(one: EndpointHealth): Health {
  const { state, reason, history, unconfirmedFailure } = one;
  return {
    ...{ state, reason, staleConnections: findStaleConnections(one) },
    ...(unconfirmedFailure === null ? {} : { unconfirmedFailure: unconfirmedFailure.reason }),
    ...(history.livenessOnly === null ? {} : { livenessOnly: history.livenessOnly }),
    ...(isSilent(one) ? { isSilent: true } : {}),
    ...(isLost(one) ? { isLost: true } : {}),
    ...(one.isDrained ? { isDrained: true } : {}),
    ...(one.isOwn ? { isOwn: true } : {}),
    ...(history === emptyHistory ? { isUntried: true } : {}),
  };
}

function findStaleConnections({
  state,
  history,
  hasStaleConnections,
}: EndpointHealth): Health['staleConnections'] {
  if (hasStaleConnections) return 'all';
  return state === 'dead' && history.consecutiveTimeouts > 0 ? 'half-open' : 'none';
}

/** After its start, kube-apiserver refuses everybody for a second or two: until it has read its roles. */
const livenessMs = 10_000;

/** Whether it has told for so long only that it lives that it will tell no more. Pure. */
export function saysLivenessOnly({ history }: EndpointHealth): boolean {
  const { livenessOnly, livenessSince, readyAt } = history;
  return livenessOnly !== null && readyAt - livenessSince >= livenessMs;
}

/** Whether anybody has to be told of a change: of a state, of what is stale, lasts or can be known, or of a failure that nobody confirms. Pure. */
export function isNews(before: EndpointHealth, after: EndpointHealth): boolean {
  return (
    before.state !== after.state ||
    before.isDrained !== after.isDrained ||
    before.hasStaleConnections !== after.hasStaleConnections ||
    saysLivenessOnly(before) !== saysLivenessOnly(after) ||
    isSilent(before) !== isSilent(after) ||
    isEndLasting(before) !== isEndLasting(after) ||
    isLost(before) !== isLost(after) ||
    (before.unconfirmedFailure === null) !== (after.unconfirmedFailure === null)
  );
}
