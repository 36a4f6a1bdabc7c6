import { type Clock } from '../../lib/control/clock.ts';
import { createLister } from '../../lib/kubernetes/object-lister.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { findNewest, readEnd } from './certificate.ts';
import { readTrusted, webhookConfigurations } from './webhook-objects.ts';

/** What API servers know of the webhook. */
export interface WebhookFacts {
  /** In how long the last certificate ends that they trust: less than 0 for one that has ended. Null where they trust none. */
  readonly leftMs: number | null;
}

/** Asks the API. Null where the webhook is not configured. Rejects as listObjects does. */
export async function readWebhookFacts(route: ApiRoute, clock: Clock): Promise<WebhookFacts | null> {
  const list = createLister(route, clock, new AbortController().signal);
  const [configuration = null] = await list(webhookConfigurations);
  const trusted = readTrusted(configuration);
  return trusted === null ? null : judgeTrusted(trusted, clock.date().getTime());
}

/** Reads what is trusted, as PEM. Pure. */
export function judgeTrusted(trusted: string, nowMs: number): WebhookFacts {
  const untilMs = readEnd(findNewest(null, trusted) ?? '');
  return { leftMs: untilMs === null ? null : untilMs - nowMs };
}
