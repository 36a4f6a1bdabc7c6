import { type Balancer, type BalancerId } from '../../lib/devices/driver.ts';
import { nameMember } from './wanted-members.ts';

/** What a device has, or may have, of one Service, as far as its writer knows. All of it can be read from the device again. */
export class HeldBalancer {
  readonly id: BalancerId;
  /** What the device is known to have, as text; null where that is not known. */
  #text: string | null = null;
  #isSuspect = false;
  #runningSinceMs: number | null = null;
  #goneSinceMs: number | null = null;
  #members = new Map<string, number | null>();
  #addresses: readonly string[] = [];
  #wanted: readonly string[] = [];
  #isThere = false;
  #isCleared = false;
  #isServing = false;
  /** Another controller's finalizer is off the Service's Endpoints. */
  isTakenOver = false;
  /** Open connections by member, as `list` counted them last; null where it does not. */
  sessions: ReadonlyMap<string, number> | null = null;

  constructor(id: BalancerId) {
    this.id = id;
  }

  /** Whether the device has, or may have, something of it. */
  get isThere(): boolean {
    return this.#isThere;
  }

  /** Whether everything of it was taken away, and nothing has come since. */
  get isCleared(): boolean {
    return this.#isCleared;
  }

  /** Whether it has served the addresses that it has now. */
  get isServing(): boolean {
    return this.#isServing;
  }

  /** Addresses that it has, in canonical text. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  /** Those, and those that it is about to have. */
  get claimed(): readonly string[] {
    return [...new Set([...this.#wanted, ...this.#addresses])];
  }

  /** By `nameMember`, to since when each drains. */
  get members(): ReadonlyMap<string, number | null> {
    return this.#members;
  }

  get isDraining(): boolean {
    return [...this.#members.values()].some((sinceMs) => sinceMs !== null);
  }

  /** Members that get no new connections, as `formatMember` writes them, to since when and their open connections as `list` counted them last. */
  get drains(): ReadonlyMap<string, { readonly sinceMs: number; readonly sessions: number | null }> {
    const drains = new Map<string, { readonly sinceMs: number; readonly sessions: number | null }>();
    for (const [name, sinceMs] of this.#members) {
      const member = name.slice(name.lastIndexOf(' ') + 1);
      const knownMs = drains.get(member)?.sinceMs ?? Infinity;
      if (sinceMs !== null && sinceMs < knownMs)
        drains.set(member, { sinceMs, sessions: this.sessions?.get(member) ?? null });
    }
    return drains;
  }

  /** `list` has found it. What is known to be there otherwise is compared anew. */
  find(balancer: Balancer, nowMs: number): void {
    const text = toText(balancer);
    this.#isThere = true;
    this.#isCleared = false;
    if (text === this.#text) return;
    this.#note(balancer, nowMs);
    // Whether it serves so, its next `ensure` says.
    this.#text = null;
  }

  /** `list` has not found it. */
  miss(): void {
    this.#text = null;
    this.#isThere = false;
  }

  /** All is to be compared with the device. */
  suspect(): void {
    this.#isSuspect = true;
  }

  /** Whether the device is to be asked: it is to be otherwise, or is to be compared. */
  isDue(balancer: Balancer): boolean {
    return this.#isSuspect || toText(balancer) !== this.#text;
  }

  /** A call begins that makes it so; null for one that takes it away. Until it is done, nobody knows what is there. */
  begin(balancer: Balancer | null, nowMs: number): void {
    this.#isThere = true;
    this.#isCleared = false;
    this.#text = null;
    this.#runningSinceMs ??= nowMs;
    const wanted = (balancer?.addresses ?? []).map(({ text }) => text);
    if (balancer !== null && wanted.some((text) => !this.#addresses.includes(text))) this.#isServing = false;
    this.#wanted = wanted;
  }

  /** The device has it so. */
  done(balancer: Balancer, nowMs: number): void {
    this.#note(balancer, nowMs);
    this.#text = toText(balancer);
    this.#isSuspect = false;
    this.#runningSinceMs = null;
    this.#isServing = true;
    this.#wanted = this.#addresses;
  }

  /** The device has nothing of it. */
  clear(): void {
    this.#isThere = false;
    this.#isCleared = true;
    this.#isServing = false;
    this.#text = null;
    this.#runningSinceMs = null;
    this.#members = new Map();
    [this.#addresses, this.#wanted] = [[], []];
  }

  /** For how long the call has been on its way that is done again and again. */
  runsMs(nowMs: number): number {
    return nowMs - (this.#runningSinceMs ?? nowMs);
  }

  /** For how long no Service has had its uid; null where one has. */
  noteGone(isGone: boolean, nowMs: number): number | null {
    this.#goneSinceMs = isGone ? (this.#goneSinceMs ?? nowMs) : null;
    return this.#goneSinceMs === null ? null : nowMs - this.#goneSinceMs;
  }

  #note({ addresses, listeners }: Balancer, nowMs: number): void {
    this.#addresses = addresses.map(({ text }) => text);
    const before = this.#members;
    this.#members = new Map(
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
