import type { Cluster, Leaders } from './cluster.ts';
import type { Written, StoredObject } from '../../../support/fakes/object-api.ts';
import { isReadyIn, listOwnGates, isTrue, isReadyButForUs, findOwner } from './pod-facts.ts';
import { isForUs, services } from '../../../../lib/api/service.ts';
import { listIps } from './invariants.ts';
import { parseObjectName } from '../../../../lib/net.ts';

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
}

/** Three minutes, but for what dates in objects are rounded to. */
const timeoutMs = 179_000;

/** What gates promise, at each write: G1, G2 and G3. */
export class GateInvariants {
  readonly #cluster: Cluster;
  /** `SLICE POD` to when the slice came to call the pod ready, and after how many writes. */
  readonly #readyToWritten = new Map<string, { readonly ms: number; readonly order: number }>();
  #order = 0;
  /** Of the last write that changed who may hold addresses. */
  #candidatesOrder = 0;
  /** G1 is about what one controller knows: of two, each may know less than the objects say. */
  readonly #isG1Checked: boolean;

  constructor(cluster: Cluster, leaders: Leaders) {
    this.#cluster = cluster;
    this.#isG1Checked = leaders === 'one';
  }

  check(written: Written): string[] {
    this.#order += 1;
    if (written.kind === 'Node') this.#candidatesOrder = this.#order;
    if (written.kind === 'AddressPool' && isOtherPool(written)) this.#candidatesOrder = this.#order;
    if (written.kind === 'EndpointSlice') return this.#checkSlice(written);
    return written.kind === 'Pod' ? this.#checkPod(written) : [];
  }

  /** G3: a slice is made for a Service that is there. */
  #checkSlice({ key, before, after }: Written): string[] {
    const uids = new Set([before, after].flatMap((slice) => listUids(slice)));
    for (const uid of uids) {
      const [was, is] = [before, after].map((slice) => slice !== null && isReadyIn(slice, uid));
      if (is !== true) this.#readyToWritten.delete(`${key} ${uid}`);
      else if (was !== true)
        this.#readyToWritten.set(`${key} ${uid}`, { ms: this.#cluster.nowMs, order: this.#order });
    }
    if (before === null) this.#cluster.count('early slices');
    const most = after?.endpoints?.length ?? 0;
    return most > 100 ? [`G3: ${key} has ${most} endpoints`] : [];
  }

  #checkPod({ key, before, after }: Written): string[] {
    if (before === null || after === null) return [];
    return listOwnGates(after).flatMap((type) => {
      const [was, is] = [before, after].map((pod) => isTrue(pod, type));
      if (was === true && is !== true) return [`G2: the gate ${type} of ${key} is closed again`];
      if (was === true || is !== true) return [];
      return this.#checkOpened(key, after, findReason(after, type));
    });
  }

  /** G1: every living candidate of every address of the pod's Services sends connections to it. */
  #checkOpened(key: string, pod: StoredObject, reason: string): string[] {
    this.#cluster.count(`gates opened: ${reason}`);
    if (!isReadyButForUs(pod)) return [`G1: a gate of ${key} is open, and its containers are not ready`];
    if (reason === 'Timeout') return this.#checkTimeout(key, pod);
    if (!this.#isG1Checked) return [];
    return this.#listPublishing(key, pod).flatMap((service) => {
      if (reason === 'NoService')
        return [
          `G1: a gate of ${key} is open for want of a Service, and ${service.metadata.name} selects it`,
        ];
      return this.#listNotSending(pod, service).map(
        (node) => `G1: a gate of ${key} is open, and ${node} does not send connections to it`,
      );
    });
  }

  #checkTimeout(key: string, pod: StoredObject): string[] {
    const conditions = (pod.status?.['conditions'] ?? []) as readonly {
      lastTransitionTime: string;
      type: string;
    }[];
    const since = conditions.find(({ type }) => type === 'ContainersReady')?.lastTransitionTime ?? '';
    // The controller judges by its date, which may be wrong here.
    const isWrong = this.#cluster.controllers.some(({ dateOffsetMs }) => dateOffsetMs !== 0);
    const waitedMs = this.#cluster.nowMs - Date.parse(since);
    return isWrong || waitedMs >= timeoutMs ? [] : [`G1: a gate of ${key} times out after ${waitedMs} ms`];
  }

  /** Services whose status has an address that is theirs: the controller that leads knows of it, as it published it, or has listed all since. */
  #listPublishing(key: string, { metadata }: StoredObject): StoredObject[] {
    const { api, isDefaultClass } = this.#cluster;
    const app = (metadata['labels'] as { app: string }).app;
    return [...api.list('Service')].flatMap(([name, service]) => {
      const isSelecting = (service.spec?.['selector'] as { app?: string } | undefined)?.app === app;
      const isHere = name.split('/')[0] === key.split('/')[0];
      const isServed =
        isForUs(services.schema.parse(service), isDefaultClass) &&
        service.metadata.deletionTimestamp === undefined;
      return isSelecting && isHere && isServed && this.#listVirtualIps(service).length > 0 ? [service] : [];
    });
  }

  #listVirtualIps(service: StoredObject): StoredObject[] {
    const ips = new Set(listIps(service));
    return [...this.#cluster.api.list('VirtualIP')].flatMap(([name, virtualIp]) => {
      const users = (virtualIp.spec?.['services'] ?? []) as readonly { uid: string }[];
      const isOwn = users.some(({ uid }) => uid === service.metadata.uid);
      return isOwn && ips.has(parseObjectName(name)?.text ?? '') ? [virtualIp] : [];
    });
  }

  #listNotSending(pod: StoredObject, service: StoredObject): string[] {
    const { api, nodes } = this.#cluster;
    const { uid } = pod.metadata;
    const written = [...api.list('EndpointSlice')]
      .filter(([, slice]) => findOwner(this.#cluster, slice) === service)
      .flatMap(([key]) => this.#readyToWritten.get(`${key} ${uid}`) ?? []);
    const [first] = written;
    if (first === undefined) return ['no early EndpointSlice'];
    // Who may hold it changed afterwards: what the controller then knew is not known here.
    if (written.some(({ order }) => order < this.#candidatesOrder)) return [];
    const sinceMs = Math.max(...written.map(({ ms }) => ms));
    return nodes
      .filter(
        (node) => node.isRunning && node.couldServeSince(sinceMs - 1) && api.list('Node').has(node.name),
      )
      .filter((node) => !node.sendsTo(uid, service.metadata.uid))
      .filter(({ name }) => this.#mayHold(name, service))
      .map(({ name }) => name);
  }

  #mayHold(node: string, service: StoredObject): boolean {
    const { api } = this.#cluster;
    const zone = (api.list('Node').get(node)?.metadata['labels'] as { zone?: string } | undefined)?.zone;
    const labels = Object.keys(api.list('Node').get(node)?.metadata['labels'] ?? {});
    if (labels.some((label) => label.includes('exclude'))) return false;
    return this.#listVirtualIps(service).some(({ spec }) => {
      const pool = api.list('AddressPool').get(String(spec?.['pool']));
      const selector = pool?.spec?.['nodeSelector'] as { matchLabels?: { zone?: string } } | undefined;
      return (selector?.matchLabels?.zone ?? zone) === zone;
    });
  }
}

function isOtherPool({ before, after }: Written): boolean {
  return JSON.stringify(before?.spec) !== JSON.stringify(after?.spec);
}

function listUids(slice: StoredObject | null): string[] {
  return (slice?.endpoints ?? []).map((endpoint) => (endpoint['targetRef'] as { uid: string }).uid);
}

function findReason({ status }: StoredObject, wanted: string): string {
  const conditions = (status?.['conditions'] ?? []) as readonly Condition[];
  return conditions.find(({ type }) => type === wanted)?.reason ?? '';
}
