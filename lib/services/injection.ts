/** What new pods of Services get, by a policy of the API server or by a webhook: both say the same. */
import { webhookName } from './names.ts';

/** For how long a pod that ends serves on, unless it says so itself: until all nodes have heard of it. */
export const pauseSeconds = 2;

/** On pods of a node's own files: the API has no word in these. Source: core/v1, MirrorPodAnnotationKey. */
export const mirrorAnnotation = 'kubernetes.io/config.mirror';

/** What a pod has to end where it does not say so. Source: core/v1, DefaultTerminationGracePeriodSeconds. */
export const defaultGraceSeconds = 30;

/** The one entry of that configuration. */
export const webhookEntry = 'gates.vipnat.io';

/** Where the API server asks. */
export const webhookPath = '/gates';

/** Where controllers in pods listen, beside their other port. */
export const webhookPort = 10_270;

/** The name that the API server expects in the certificate. Source: apiextensions/webhook, the host of a Service. */
export function toServerName(namespace: string): string {
  return `${webhookName}.${namespace}.svc`;
}

/** What gets pods by policy and by webhook. */
export const injectionMethods = ['policy', 'webhook'] as const;

/** One of injectionMethods. */
export type InjectionMethod = (typeof injectionMethods)[number];
