import * as z from 'zod/mini';
import { name, version } from '../../lib/kubernetes/api-object.ts';
import { type AnswerLimits, type Resource } from '../../lib/kubernetes/resources.ts';
import { webhookEntry } from '../../lib/services/injection.ts';
import { webhookName } from '../../lib/services/names.ts';

/** Base64 as the API has bytes; what is none is read as far as it goes. */
const bytes = z.pipe(
  z.string(),
  z.transform((text: string) => Buffer.from(text, 'base64').toString()),
);

const metadata = z.object({ name, resourceVersion: version });

const secret = z.object({ metadata, data: z.nullish(z.record(z.string(), bytes)) });

const configuration = z.object({
  metadata,
  webhooks: z.nullish(
    z.array(z.object({ name: z.string(), clientConfig: z.object({ caBundle: z.nullish(bytes) }) })),
  ),
});

/** The webhook's Secret, its data decoded. */
export type WebhookSecret = z.output<typeof secret>;

/** The webhook's configuration, what it trusts decoded. */
export type WebhookConfiguration = z.output<typeof configuration>;

/** One object is asked for by its name, so that a role can be limited to it. */
const selector = `fieldSelector=${encodeURIComponent(`metadata.name=${webhookName}`)}`;

const limits: AnswerLimits = { objects: 10, characters: 4_000_000, page: null };

/** Where Secrets of a namespace are. */
export function toSecretPath(namespace: string): string {
  return `/api/v1/namespaces/${namespace}/secrets`;
}

/** The webhook's Secret in vipnat's namespace. */
export function toSecretResource(namespace: string): Resource<WebhookSecret> {
  return { kind: 'Secret', path: toSecretPath(namespace), selector, schema: secret, limits };
}

/** The webhook's configuration. */
export const webhookConfigurations: Resource<WebhookConfiguration> = {
  kind: 'MutatingWebhookConfiguration',
  path: '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations',
  ...{ selector, schema: configuration, limits },
};

/** What API servers trust, as PEM; null where the configuration lacks the webhook. */
export function readTrusted(object: WebhookConfiguration | null): string | null {
  const entry = object?.webhooks?.find((one) => one.name === webhookEntry);
  return entry === undefined ? null : (entry.clientConfig.caBundle ?? '');
}
