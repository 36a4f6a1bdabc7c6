import { type EndpointHealth, noSymptoms } from './endpoint-health.ts';
import { isUnheard } from './judge.ts';
import { type Health } from './usable.ts';

/** What decisions and people need to know of one apiserver's health. Pure. */
export function summarize(one: EndpointHealth): Health {
  const { state, reason, symptoms, isLost, suspicion } = one;
  const isSilent = state === 'dead' && symptoms.unheard > 0;
  const hanging = isLost ? 'all' : isSilent ? 'half-open' : 'none';
  const doubt = suspicion === null ? {} : { doubt: suspicion.reason };
  return {
    ...{ state, reason, hanging },
    ...doubt,
    ...(isUnheard(one) ? { isUnheard: true } : {}),
    ...(one.isOwn ? { isOwn: true } : {}),
    ...(symptoms === noSymptoms ? { isUntried: true } : {}),
  };
}

/** Whether anybody has to be told of a change: of a state, of what is lost or suspected. Pure. */
export function isNews(before: EndpointHealth, after: EndpointHealth): boolean {
  return (
    before.state !== after.state ||
    before.isLost !== after.isLost ||
    isUnheard(before) !== isUnheard(after) ||
    (before.suspicion === null) !== (after.suspicion === null)
  );
}
