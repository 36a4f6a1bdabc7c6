import type { Cluster, Leaders } from './cluster.ts';
import type { Written, StoredObject } from '../../../support/fakes/object-api.ts';
import {
  isReadyIn,
  listOwnGates,
  isTrue,
  isReadyButForUs,
  findOwner,
  hasOtherSpec,
  listConditions,
  OverdueNodes,
} from './pod-facts.ts';
import { isCandidate } from './seat-faults.ts';
import { isForUs, services } from '../../../../lib/api/service.ts';
import { listIps } from './invariants.ts';
import { parseObjectName } from '../../../../lib/net.ts';

/** A gate waits for three minutes, and for 40 seconds where no node lives; but for what dates in objects are rounded to. */
const [timeoutMs, aliveMs] = [179_000, 39_000];

/** What gates promise, at each write: G1, G2 and G3. */
export class GateInvariants {
  readonly #cluster: Cluster;
  /** `SLICE POD` to when the slice came to call the pod ready, and after how many writes. */
  readonly #readyToWritten = new Map<string, { readonly ms: number; readonly order: number }>();
  /** Pods, by their uids, to when their containers were ready first: their gates cannot have waited for longer. */
  readonly #uidToReadyMs = new Map<string, number>();
  readonly #overdue = new OverdueNodes();
  /** Services, by their uids, that had another policy before: a controller may not have heard of the new one. */
  readonly #changedPolicies = new Set<string>();
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
    if (written.kind === 'AddressPool' && hasOtherSpec(written)) this.#candidatesOrder = this.#order;
    if (written.kind === 'Service' && readPolicy(written.before) !== readPolicy(written.after))
      if (written.before !== null) this.#changedPolicies.add(written.before.metadata.uid);
    if (written.kind === 'EndpointSlice') return this.#checkSlice(written);
    return written.kind === 'Pod' ? this.#checkPod(written) : [];
  }

  /** G3: a slice is made for a Service that is there. */
  #checkSlice({ key, before, after }: Written): string[] {
    const uids = new Set([before, after].flatMap((slice) => listUids(slice)));
    const tooEarly: string[] = [];
    for (const uid of uids) {
      const [was, is] = [before, after].map((slice) => slice !== null && isReadyIn(slice, uid));
      if (is !== true) this.#readyToWritten.delete(`${key} ${uid}`);
      else if (was !== true) {
        this.#readyToWritten.set(`${key} ${uid}`, { ms: this.#cluster.nowMs, order: this.#order });
        tooEarly.push(...this.#findTooEarly(after, uid));
      }
    }
    if (before === null) this.#cluster.count('early slices');
    const most = after?.endpoints?.length ?? 0;
    return most > 100 ? [`G3: ${key} has ${most} endpoints`] : tooEarly;
  }

  /** G4: with policy Local other nodes hear of a pod when its own has it. */
  #findTooEarly(slice: StoredObject | null, uid: string): string[] {
    const service = slice === null ? null : findOwner(this.#cluster, slice);
    const pod = [...this.#cluster.api.list('Pod').values()].find(({ metadata }) => metadata.uid === uid);
    if (!this.#isG1Checked || service === null || pod === undefined || readPolicy(service) !== 'Local')
      return [];
    const own = this.#cluster.nodes.find(({ name }) => name === pod.spec?.['nodeName']);
    const serviceUid = service.metadata.uid;
    if (
      own?.isRunning !== true ||
      own.sendsTo(uid, serviceUid, true) ||
      this.#changedPolicies.has(serviceUid)
    )
      return [];
    return [`G4: other nodes hear of ${pod.metadata.name} before ${own.name}, which has it`];
  }

  #checkPod({ key, before, after }: Written): string[] {
    if (after !== null && isReadyButForUs(after) && !this.#uidToReadyMs.has(after.metadata.uid))
      this.#uidToReadyMs.set(after.metadata.uid, this.#cluster.nowMs);
    if (before === null || after === null) return [];
    return listOwnGates(after).flatMap((type) => {
      const [was, is] = [before, after].map((pod) => isTrue(pod, type));
      if (was === true && is !== true) return [`G2: the gate ${type} of ${key} is closed again`];
      if (was === true || is !== true) return [];
      const { reason = '' } = listConditions(after.status).find((one) => one.type === type) ?? {};
      return this.#checkOpened(key, after, reason);
    });
  }

  /** G1: every living candidate of every address of the pod's Services sends connections to it. */
  #checkOpened(key: string, pod: StoredObject, reason: string): string[] {
    this.#cluster.count(`gates opened: ${reason}`);
    if (!isReadyButForUs(pod)) return [`G1: a gate of ${key} is open, and its containers are not ready`];
    if (reason === 'Timeout') return this.#checkTimeout(key, pod);
    const waitedMs = this.#readWaitedMs(pod);
    if (reason === 'NoLivingNode' && waitedMs < aliveMs)
      return [`G1: a gate of ${key} times out after ${waitedMs} ms`];
    // kube-proxy has the pod when it is ready.
    if (!this.#isG1Checked || reason === 'KubeProxy') return [];
    return this.#listPublishing(key, pod).flatMap((service) => {
      if (reason === 'NoService')
        return [
          `G1: a gate of ${key} is open for want of a Service, and ${service.metadata.name} selects it`,
        ];
      return this.#listNotSending(pod, service, reason).map(
        (node) => `G1: a gate of ${key} is open, and ${node} does not send connections to it`,
      );
    });
  }

  #checkTimeout(key: string, pod: StoredObject): string[] {
    const { api, nodes } = this.#cluster;
    const waitedMs = this.#readWaitedMs(pod);
    const services = [...api.list('Service').values()].map(({ metadata }) => metadata.uid);
    if (waitedMs >= timeoutMs)
      this.#overdue.add(
        nodes.filter((node) => !services.some((uid) => node.sendsTo(pod.metadata.uid, uid))),
        api.version,
      );
    else if (!this.#overdue.isAny(api.list('Lease')))
      return [`G1: a gate of ${key} times out after ${waitedMs} ms`];
    return [];
  }

  #readWaitedMs({ metadata: { uid } }: StoredObject): number {
    return this.#cluster.nowMs - (this.#uidToReadyMs.get(uid) ?? Infinity);
  }

  /** Services whose status has an address that is theirs: the controller that leads knows of it, as it published it, or has listed all since. */
  #listPublishing(key: string, { metadata }: StoredObject): StoredObject[] {
    const { api, isDefaultClass } = this.#cluster;
    const app = metadata.labels?.['app'];
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

  #listNotSending(pod: StoredObject, service: StoredObject, reason: string): string[] {
    const { api, nodes } = this.#cluster;
    const { uid } = pod.metadata;
    const written = [...api.list('EndpointSlice')]
      .filter(([, slice]) => findOwner(this.#cluster, slice) === service)
      .flatMap(([key]) => this.#readyToWritten.get(`${key} ${uid}`) ?? []);
    const [first] = written;
    if (first === undefined) return reason === 'NoLivingNode' ? [] : ['no early EndpointSlice'];
    // Who may hold it changed afterwards: what the controller then knew is not known here.
    if (written.some(({ order }) => order < this.#candidatesOrder)) return [];
    const sinceMs = Math.max(...written.map(({ ms }) => ms));
    return nodes
      .filter(
        (node) => node.isRunning && node.couldServeSince(sinceMs - 1) && api.list('Node').has(node.name),
      )
      .filter((node) => reason === 'NoLivingNode' || !node.sendsTo(uid, service.metadata.uid))
      .filter(({ name }) =>
        this.#listVirtualIps(service).some(({ spec }) => isCandidate(this.#cluster, name, spec?.['pool'])),
      )
      .map(({ name }) => name);
  }
}

function readPolicy(service: StoredObject | null): unknown {
  return service?.spec?.['externalTrafficPolicy'];
}

function listUids(slice: StoredObject | null): string[] {
  return (slice?.endpoints ?? []).map((endpoint) => (endpoint['targetRef'] as { uid: string }).uid);
}
