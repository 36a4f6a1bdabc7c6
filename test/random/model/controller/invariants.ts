import type { Cluster, Leaders } from './cluster.ts';
import type { Written, StoredObject } from '../../../support/fakes/object-api.ts';
import {
  reportAnnotations,
  finalizer,
  loadBalancerClass,
  type AddressUser,
} from '../../../../lib/api/vipnat.ts';
import { parseObjectName, parseAddress, toObjectName } from '../../../../lib/net.ts';
import { hasOtherSpec, listConditions } from './pod-facts.ts';
import { isCandidate } from './seat-faults.ts';

/** S1, S2 and S3 of docs/design.md, at each write. */
export class Invariants {
  readonly #cluster: Cluster;
  /** VirtualIPs to when their generation was written, and after how many writes. */
  readonly #nameToWritten = new Map<string, { readonly ms: number; readonly order: number }>();
  /** VirtualIPs to the versions of their generations, the newest first. */
  readonly #nameToVersions = new Map<string, readonly bigint[]>();
  /** Up to which version nodes that hold seats have said that their interfaces have all addresses. */
  #announced = 0n;
  /** Which virtual IPs nodes have programmed for which Service: `NAME UID`. */
  readonly #programmed = new Set<string>();
  /** Services' uids to when a VirtualIP last stopped naming them among its Services. */
  readonly #uidToLeftMs = new Map<string, number>();
  #order = 0;
  /** Of the last write that changed who may hold addresses. */
  #candidatesOrder = 0;
  /** S3 needs one leader: an old one does not know what the new one has just given (docs/design.md). */
  readonly #isS3Checked: boolean;

  constructor(cluster: Cluster, leaders: Leaders) {
    this.#cluster = cluster;
    this.#isS3Checked = leaders === 'one';
  }

  check(written: Written): string[] {
    this.#order += 1;
    if (written.kind === 'Service')
      return [...this.#checkPublished(written), ...this.#checkFinalizer(written)];
    if (written.kind === 'VirtualIP') return this.#checkVirtualIp(written);
    if (written.kind === 'Node') this.#candidatesOrder = this.#order;
    if (written.kind === 'Lease') this.#noteAnnounced(written);
    if (written.kind === 'AddressPool' && hasOtherSpec(written)) this.#candidatesOrder = this.#order;
    return [];
  }

  /** S1 and S2, when a status gets an address. */
  #checkPublished({ key, before, after }: Written): string[] {
    const known = listIps(before);
    const added =
      after !== null && mayBeOurs(after) ? listIps(after).filter((ip) => !known.includes(ip)) : [];
    // Whoever has one address and asks for both afterwards keeps the one.
    const isHalf =
      after?.spec?.['ipFamilyPolicy'] === 'RequireDualStack' && known.length === 0 && added.length === 1;
    const half = isHalf ? [`S2: ${key} requires two families, and publishes one`] : [];
    return added.flatMap((ip) => {
      const virtualIp = this.#cluster.api.list('VirtualIP').get(toName(ip));
      const uid = after?.metadata.uid ?? '';
      this.#cluster.count('published');
      const complaints: string[] = [...half];
      if (virtualIp === undefined || !listAllUsers(virtualIp).some((user) => user.uid === uid))
        complaints.push(`S2: ${key} publishes ${ip}, which no VirtualIP gives it`);
      else complaints.push(...this.#checkAnswers(key, ip, uid));
      const others = this.#listPublishers(ip).filter((each) => each !== key);
      if (others.length > 0 && virtualIp?.spec?.['shareKey'] === '')
        complaints.push(`S1: ${key} publishes ${ip}, which ${others.join()} has`);
      return complaints;
    });
  }

  #checkAnswers(key: string, ip: string, uid: string): string[] {
    if (!this.#programmed.has(`${toName(ip)} ${uid}`))
      return [`S2: ${key} publishes ${ip}, which nodes have not programmed`];
    // Its generation when the controller asked for it last: one that came since is a seat that moves, as any published address's may.
    const versions = this.#nameToVersions.get(toName(ip)) ?? [];
    const version = versions.find((each) => each <= this.#cluster.confirmedVersion) ?? 0n;
    return version > this.#announced ? [`S2: ${key} publishes ${ip}, which no interface has`] : [];
  }

  #noteAnnounced({ after }: Written): void {
    const { annotations = {} } = after?.metadata ?? {};
    const announced = BigInt(annotations[reportAnnotations.announced] ?? '0');
    const isHolder = (annotations[reportAnnotations.seats] ?? '[]') !== '[]';
    if (isHolder && announced > this.#announced) this.#announced = announced;
  }

  /** Those that published it as ours; not those of another load balancer. */
  #listPublishers(ip: string): string[] {
    const services = [...this.#cluster.api.list('Service')];
    return services
      .filter(([, service]) => mayBeOurs(service) && listIps(service).includes(ip))
      .map(([key]) => key);
  }

  /** S3: the finalizer, or the Service, goes. */
  #checkFinalizer({ key, before, after }: Written): string[] {
    const [had, has] = [before, after].map((each) => each?.metadata.finalizers?.includes(finalizer) === true);
    const isLost = had === true && has !== true;
    if (!this.#isS3Checked || before === null || (after !== null && !isLost)) return [];
    const { uid } = before.metadata;
    const sinceMs = this.#uidToLeftMs.get(uid) ?? this.#cluster.nowMs;
    return this.#cluster.nodes
      .filter((node) => node.listServed(uid).length > 0 && node.hasLivedSince(sinceMs))
      .map(
        (node) => `S3: ${key} loses its finalizer while ${node.name} serves ${node.listServed(uid).join()}`,
      );
  }

  #checkVirtualIp({ key, before, after }: Written): string[] {
    const { nowMs } = this.#cluster;
    if (after === null) this.#cluster.count('deleted');
    // A deletion is a generation of its own, and asks nothing of nodes.
    if (after !== null && hasOtherSpec({ before, after })) {
      this.#nameToWritten.set(key, { ms: nowMs, order: this.#order });
      const versions = this.#nameToVersions.get(key) ?? [];
      this.#nameToVersions.set(key, [BigInt(after.metadata.resourceVersion), ...versions]);
    }
    const [were, are] = [before, after].map((each) => (each === null ? [] : listUsers(each, 'services')));
    for (const { uid } of were ?? [])
      if (are?.some((user) => user.uid === uid) !== true) this.#uidToLeftMs.set(uid, nowMs);
    this.#notePrograms(key, after);
    return [
      ...this.#checkStruck(key, before, after),
      ...this.#checkGiven(key, before, after),
      ...this.#checkProgrammed(key, before, after),
    ];
  }

  /** Who has been programmed stays so until it leaves, whoever else comes and goes. */
  #notePrograms(key: string, after: StoredObject | null): void {
    const users = after === null ? [] : listAllUsers(after).map(({ uid }) => `${key} ${uid}`);
    for (const known of this.#programmed)
      if (known.startsWith(`${key} `) && !users.includes(known)) this.#programmed.delete(known);
    if (after === null || !isProgrammed(after)) return;
    for (const { uid } of listUsers(after, 'services')) this.#programmed.add(`${key} ${uid}`);
  }

  /** S2: whoever publishes an address is named in its VirtualIP. */
  #checkStruck(key: string, before: StoredObject | null, after: StoredObject | null): string[] {
    const text = parseObjectName(key)?.text ?? '';
    const still = after === null ? [] : listAllUsers(after);
    return (before === null ? [] : listAllUsers(before))
      .filter(({ uid }) => !still.some((user) => user.uid === uid))
      .filter(({ namespace, name, uid }) => {
        const service = this.#cluster.api.list('Service').get(`${namespace}/${name}`);
        return service?.metadata.uid === uid && listIps(service).includes(text);
      })
      .map(({ namespace, name }) => `S2: ${namespace}/${name} is struck off ${key}, and publishes it`);
  }

  /** S1: whoever gets an address gets it from nobody whom a node serves still, whether the API reaches that node or not. */
  #checkGiven(key: string, before: StoredObject | null, after: StoredObject | null): string[] {
    if (after === null) return [];
    const known = before === null ? [] : listAllUsers(before).map(({ uid }) => uid);
    const users = listUsers(after, 'services');
    const [given] = users.filter(({ uid }) => !known.includes(uid));
    if (given === undefined) return [];
    const nodes = this.#cluster.nodes.filter(({ name }) => this.#cluster.api.list('Node').has(name));
    const isUser = (uid: string) => users.some((user) => user.uid === uid);
    return nodes
      .filter((node) => node.listServing(key).some((uid) => !isUser(uid)))
      .map(({ name }) => `S1: ${key} is given to ${given.name}, while ${name} serves it for another Service`);
  }

  /** S2: the condition Programmed is true. */
  #checkProgrammed(key: string, before: StoredObject | null, after: StoredObject | null): string[] {
    if (after === null || !isProgrammed(after) || (before !== null && isProgrammed(before))) return [];
    const { ms: sinceMs, order } = this.#nameToWritten.get(key) ?? { ms: 0, order: 0 };
    // Who may hold it changed after it was written: what the controller then knew is not known here.
    if (this.#candidatesOrder > order) return [];
    this.#cluster.count('programmed');
    const users = listUsers(after, 'services');
    const missing = this.#cluster.nodes.filter(
      (node) =>
        isCandidate(this.#cluster, node.name, after.spec?.['pool']) &&
        node.isRunning &&
        node.couldServeSince(sinceMs - 1) &&
        !users.every(({ uid }) => node.serves(key, uid)),
    );
    return missing.map(({ name }) => `S2: ${key} is called programmed, and ${name} has not programmed it`);
  }
}

/** Whether our controller may write its status. Nobody else writes that of a Service without a class. */
export function mayBeOurs({ spec }: StoredObject): boolean {
  return (spec?.['loadBalancerClass'] ?? loadBalancerClass) === loadBalancerClass;
}

export function listIps(service: StoredObject | null): string[] {
  const { loadBalancer } = (service?.status ?? {}) as { loadBalancer?: { ingress?: { ip: string }[] } };
  return (loadBalancer?.ingress ?? []).map(({ ip }) => ip);
}

export function listAllUsers(virtualIp: StoredObject): AddressUser[] {
  return [...listUsers(virtualIp, 'services'), ...listUsers(virtualIp, 'leaving')];
}

/** The name of an address's VirtualIP. */
export function toName(ip: string): string {
  const address = parseAddress(ip);
  return address === null ? ip : toObjectName(address);
}

function listUsers({ spec }: StoredObject, field: 'services' | 'leaving'): AddressUser[] {
  return (spec?.[field] as AddressUser[] | undefined) ?? [];
}

function isProgrammed({ status, metadata }: StoredObject): boolean {
  return listConditions(status).some(
    ({ type, status: is, observedGeneration }) =>
      type === 'Programmed' && is === 'True' && observedGeneration === metadata.generation,
  );
}
