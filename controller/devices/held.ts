import type { Service } from '../../lib/api/service.ts';
import {
  type LoadBalancerDevice,
  chooseDevice,
  listCurrentOwners,
  type DeviceDrain,
} from '../../lib/api/device.ts';
import type { ClusterView } from '../cache/cache.ts';
import { getIngress, isServed, findBalancer, toTime } from '../cache/parts.ts';
import { isOfDevice } from './service-kind.ts';
import * as z from 'zod/mini';
import { objectVersion, type NamespacedName } from '../../lib/kubernetes/client.ts';
import type { ObjectClient } from '../../lib/kubernetes/writes.ts';
import { formerFinalizer } from '../../lib/api/vipnat.ts';
import { VipnatError } from '../../lib/errors.ts';
import type { BalancerId, Balancer } from '../../devices/driver.ts';
import { nameMember, type FormerMembers } from './wanted.ts';

/** What one device is to do about one Service. Pure. */

/** What is to be done. */
type Intent =
  /** It is to have the Service. */
  | 'have'
  /** It is to have nothing of it. */
  | 'clear'
  /** It is left as it is: others have to do something first, or there is nothing to do. */
  | 'leave';

/**
 * The Service is undefined where none has its uid any more. `isThere` says whether the device has, or may have, something of it.
 *
 * Nothing is put there before the Service's finalizer says so, and nothing is taken away from a Service that lives before whatever follows
 * serves it, and its status says so.
 */
export function judgeService(
  service: Service | undefined,
  {
    device,
    isThere,
    view,
  }: { readonly device: LoadBalancerDevice; readonly isThere: boolean; readonly view: ClusterView },
): Intent {
  if (service === undefined) return isThere ? 'clear' : 'leave';
  const { name } = device.metadata;
  const chosen = chooseDevice(service, view.settings.defaultDevice);
  const isOwner = listCurrentOwners(service).includes(name);
  if (chosen === name) return isOwner ? 'have' : 'leave';
  if (!isOwner && !isThere) return 'leave';
  return isFollowed(service, chosen, view) ? 'clear' : 'leave';
}

/** Whether what follows serves, or nothing does. */
function isFollowed(service: Service, chosen: string | null, view: ClusterView): boolean {
  const ingress = getIngress(service);
  if (chosen === null)
    return !isServed(service, view.settings.isDefaultClass) || ingress.some((one) => !isOfDevice(one));
  const next = findBalancer(view, chosen, service);
  return (
    next?.deviceStatus === 'serves' && next.addresses.every((text) => ingress.some(({ ip }) => ip === text))
  );
}

/** What another controller of devices has put on the Endpoints of a Service: its finalizer, which keeps a deleted Service's Endpoints. */

const schema = z.object({
  metadata: z.object({ resourceVersion: objectVersion, finalizers: z.nullish(z.array(z.string())) }),
});

const readMs = 4000;

/**
 * Takes it off, where it is there. The namespace is vipnat's own. Answers whether it is off now: false where somebody else wrote the Endpoints meanwhile.
 * @throws VipnatError API_FORBIDDEN, with the remedy, or API_UNREACHABLE
 */
export async function dropFormerFinalizer(
  client: ObjectClient,
  { namespace, name }: NamespacedName,
  { writeMs, namespace: own }: { readonly writeMs: () => number; readonly namespace: string },
): Promise<boolean> {
  const what = `the Endpoints ${namespace}/${name}`;
  const path = `/api/v1/namespaces/${namespace}/endpoints/${name}`;
  const answer = await client.read({ title: `reading ${what}`, path, schema }, readMs);
  if (answer.outcome === 'gone') return true;
  if (answer.outcome !== 'found') throw toError(answer.outcome, answer.detail, own);
  const { resourceVersion, finalizers } = answer.object.metadata;
  if (finalizers?.includes(formerFinalizer) !== true) return true;
  const limitMs = writeMs();
  if (limitMs === 0) return false;
  const body = {
    metadata: { resourceVersion, finalizers: finalizers.filter((each) => each !== formerFinalizer) },
  };
  const title = `taking the finalizer ${formerFinalizer} off ${what}`;
  const { outcome, detail } = await client.write({ title, method: 'PATCH', path, body }, limitMs);
  if (outcome === 'taken' || outcome === 'gone') return true;
  if (outcome === 'conflict') return false;
  throw toError(outcome, detail, own);
}

function toError(outcome: string, detail: string, own: string): VipnatError {
  if (outcome !== 'forbidden' && outcome !== 'refused') return new VipnatError('API_UNREACHABLE', detail);
  const role = 'kubectl create clusterrole vipnat-takes-over --verb=get,patch --resource=endpoints';
  const binding = `kubectl create clusterrolebinding vipnat-takes-over --clusterrole=vipnat-takes-over --serviceaccount=${own}:vipnat-controller`;
  return new VipnatError('API_FORBIDDEN', `${detail}. Run: ${role} && ${binding}`);
}

/** A status has so many of them. */
const maxDrains = 100;

/** The members that drain, the longest ones first. `dateOffsetMs` makes a date of a moment of the clock. */
export function listDrains(draining: readonly HeldBalancer[], dateOffsetMs: number): readonly DeviceDrain[] {
  const all = draining.flatMap(({ id: { namespace, name }, drains }) =>
    [...drains].map(([member, drain]) => ({ service: `${namespace}/${name}`, member, ...drain })),
  );
  const longest = all.sort((one, other) => one.sinceMs - other.sinceMs).slice(0, maxDrains);
  return longest.map(({ service, member, sinceMs, sessions }) => {
    return { service, member, since: toTime(dateOffsetMs + sinceMs), sessions };
  });
}

/** What a device has, or may have, of one Service, as far as its writer knows. All of it can be read from the device again. */
export class HeldBalancer {
  readonly id: BalancerId;
  /** What the device is known to have, as text; null where that is not known. */
  #text: string | null = null;
  #isStale = false;
  #runningSinceMs: number | null = null;
  #goneSinceMs: number | null = null;
  #wanted: readonly string[] = [];
  /** By `nameMember`, to since when each drains. */
  members: FormerMembers = new Map();
  /** Addresses that it has, in canonical text. */
  addresses: readonly string[] = [];
  /** Whether the device has, or may have, something of it. */
  isThere = false;
  /** Whether everything of it was taken away, and nothing has come since. */
  isCleared = false;
  /** Whether it has served the addresses that it has now. */
  isServing = false;
  /** Another controller's finalizer is off the Service's Endpoints. */
  isTakenOver = false;
  /** Open connections by member, as `list` counted them last; null where it does not. */
  sessions: ReadonlyMap<string, number> | null = null;

  constructor(id: BalancerId) {
    this.id = id;
  }

  /** Those, and those that it is about to have. */
  get reserved(): readonly string[] {
    return [...new Set([...this.#wanted, ...this.addresses])];
  }

  get isDraining(): boolean {
    return [...this.members.values()].some((sinceMs) => sinceMs !== null);
  }

  /** Members that get no new connections, as `formatMember` writes them, to since when and their open connections as `list` counted them last. */
  get drains(): ReadonlyMap<string, { readonly sinceMs: number; readonly sessions: number | null }> {
    const drains = new Map<string, { readonly sinceMs: number; readonly sessions: number | null }>();
    for (const [name, sinceMs] of this.members) {
      const member = name.slice(name.lastIndexOf(' ') + 1);
      const knownMs = drains.get(member)?.sinceMs ?? Infinity;
      if (sinceMs !== null && sinceMs < knownMs)
        drains.set(member, { sinceMs, sessions: this.sessions?.get(member) ?? null });
    }
    return drains;
  }

  /** `list` has found it. What is known to be there otherwise is compared again. */
  find(balancer: Balancer, nowMs: number): void {
    const text = toText(balancer);
    this.isThere = true;
    this.isCleared = false;
    if (text === this.#text) return;
    this.#note(balancer, nowMs);
    // Whether it serves so, its next `ensure` says.
    this.#text = null;
  }

  /** `list` has not found it. */
  miss(): void {
    this.#text = null;
    this.isThere = false;
  }

  /** All is to be compared with the device. */
  markStale(): void {
    this.#isStale = true;
  }

  /** Whether the device is to be asked: it is to be otherwise, or is to be compared. */
  isDue(balancer: Balancer): boolean {
    return this.#isStale || toText(balancer) !== this.#text;
  }

  /** A call begins that makes it so; null for one that takes it away. Until it is done, nobody knows what is there. */
  begin(balancer: Balancer | null, nowMs: number): void {
    this.isThere = true;
    this.isCleared = false;
    this.#text = null;
    this.#runningSinceMs ??= nowMs;
    const wanted = (balancer?.addresses ?? []).map(({ text }) => text);
    if (balancer !== null && wanted.some((text) => !this.addresses.includes(text))) this.isServing = false;
    this.#wanted = wanted;
  }

  /** The device has it so. */
  done(balancer: Balancer, nowMs: number): void {
    this.#note(balancer, nowMs);
    this.#text = toText(balancer);
    this.#isStale = false;
    this.#runningSinceMs = null;
    this.isServing = true;
    this.#wanted = this.addresses;
  }

  /** The device has nothing of it. */
  clear(): void {
    this.isThere = false;
    this.isCleared = true;
    this.isServing = false;
    this.#text = null;
    this.#runningSinceMs = null;
    this.members = new Map();
    [this.addresses, this.#wanted] = [[], []];
  }

  /** For how long the call that is repeated until it is done has run. */
  runsMs(nowMs: number): number {
    return nowMs - (this.#runningSinceMs ?? nowMs);
  }

  /** For how long no Service has had its uid; null where one has. */
  noteGone(isGone: boolean, nowMs: number): number | null {
    this.#goneSinceMs = isGone ? (this.#goneSinceMs ?? nowMs) : null;
    return this.#goneSinceMs === null ? null : nowMs - this.#goneSinceMs;
  }

  #note({ addresses, listeners }: Balancer, nowMs: number): void {
    this.addresses = addresses.map(({ text }) => text);
    const before = this.members;
    this.members = new Map(
      listeners.flatMap(({ protocol, port, members }) =>
        members.map((member) => {
          const name = nameMember(protocol, port, member);
          return [name, member.weight > 0 ? null : (before.get(name) ?? nowMs)] as const;
        }),
      ),
    );
  }
}

function toText({ addresses, listeners, method, affinityS }: Balancer): string {
  return JSON.stringify([addresses, listeners, method, affinityS]);
}
