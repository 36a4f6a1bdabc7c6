/** What kube-controller-manager does: EndpointSlices follow pods and Services a moment later, and what has no owner goes. */
import type { Clock } from '../../../../lib/clock.ts';
import type { MemoryApi } from './memory-api.ts';
import type { Random } from '../../../support/random/random.ts';
import type { StoredObject } from '../../../support/fakes/object-api.ts';
import { podPort } from './machine-kernel.ts';
import { isTrue } from '../controller/pod-facts.ts';

interface Owner {
  readonly name: string;
  readonly uid: string;
}

export class SliceController {
  readonly #clock: Clock;
  readonly #api: MemoryApi;
  readonly #random: Random;
  readonly #dirty = new Set<string>();

  constructor(clock: Clock, api: MemoryApi, random: Random) {
    [this.#clock, this.#api, this.#random] = [clock, api, random];
  }

  /** A pod has changed: so may the Services that select it, and those that had it. */
  planSelecting(pod: StoredObject | null): void {
    if (pod === null) return;
    for (const [key, service] of this.#api.objects.list('Service'))
      if (isSelected(key, service, pod)) this.plan(key);
    const slices = [...this.#api.objects.list('EndpointSlice')];
    for (const [key, { endpoints = [] }] of slices)
      if (
        endpoints.some((one) => (one['targetRef'] as { uid: string }).uid === pod.metadata.uid) &&
        key.endsWith('-k8s')
      )
        this.plan(key.replace(/-k8s$/, ''));
  }

  /** A Service has changed, or what it selects. */
  plan(service: string): void {
    if (this.#dirty.has(service)) return;
    this.#dirty.add(service);
    this.later(20, 700, this.#sync.bind(this, service));
  }

  #sync(service: string): void {
    this.#dirty.delete(service);
    if (this.#api.delayMs === null) {
      this.plan(service);
      return;
    }
    const { objects } = this.#api;
    const [key, object] = [`${service}-k8s`, objects.list('Service').get(service)];
    if (object === undefined) {
      objects.remove('EndpointSlice', key);
      return;
    }
    const endpoints = [...objects.list('Pod').values()]
      .filter((pod) => isSelected(service, object, pod) && pod.status?.['podIP'] !== undefined)
      .map(toEndpoint);
    if (objects.patch('EndpointSlice', key, { endpoints }) === 200) return;
    const [, name = ''] = service.split('/');
    const metadata = { labels: { 'kubernetes.io/service-name': name } };
    const ports = [{ name: '', protocol: 'TCP', port: podPort }];
    objects.create('EndpointSlice', key, { metadata, addressType: 'IPv4', ports, endpoints });
  }

  /** Slices of Services that are gone. */
  collect(): void {
    const { objects } = this.#api;
    for (const [key, slice] of objects.list('EndpointSlice')) {
      const owners = (slice.metadata['ownerReferences'] ?? []) as readonly Owner[];
      const [namespace = ''] = key.split('/');
      const isGone = (owner: Owner) =>
        objects.list('Service').get(`${namespace}/${owner.name}`)?.metadata.uid !== owner.uid;
      if (owners.length > 0 && owners.every(isGone)) objects.remove('EndpointSlice', key);
    }
  }

  /** A moment later, which differs each time. */
  later(leastMs: number, mostMs: number, act: () => void): void {
    this.#clock.schedule(leastMs + this.#random.below(mostMs), act);
  }
}

/** Whether a Service selects a pod. */
export function isSelected(key: string, { spec }: StoredObject, { metadata }: StoredObject): boolean {
  const { app } = (spec?.['selector'] ?? {}) as { readonly app?: string };
  return app !== undefined && metadata.labels?.['app'] === app && key.split('/')[0] === metadata.namespace;
}

function toEndpoint(pod: StoredObject): Record<string, unknown> {
  const { uid, name, deletionTimestamp } = pod.metadata;
  const [isReady, terminating] = [isTrue(pod, 'Ready'), deletionTimestamp !== undefined];
  return {
    addresses: [pod.status?.['podIP']],
    conditions: { ready: isReady && !terminating, serving: isReady, terminating },
    nodeName: pod.spec?.['nodeName'],
    targetRef: { kind: 'Pod', name, uid },
  };
}
