import { type Informer } from '../../lib/kubernetes/informer.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { type VirtualIp } from '../../lib/services/objects.ts';
import { type Standing } from '../report/standing.ts';

/** Who follows VirtualIPs. */
type Source = Pick<Informer<VirtualIp>, 'version' | 'listed' | 'relist'>;

/**
 * VirtualIPs as far as this node may act on them. While the controller may not count on this node, no address comes, and no Service
 * gets one. Addresses go, and Services lose them.
 */
export class AdmittedAddresses {
  readonly #standing: Standing;
  #source: Source | null = null;
  #admitted = new Map<string, VirtualIp>();
  /** The list that has to be there; none before the first term. */
  #needed = Infinity;
  /** Whether nothing is held back. */
  #isComplete = false;
  /** Up to which nothing was held back. */
  #version: string | null = null;

  constructor(standing: Standing) {
    this.#standing = standing;
  }

  /** Begins with what is followed. Not to be called twice. */
  start(source: Source): void {
    this.#source = source;
    this.#standing.onTerm(() => {
      this.#needed = source.relist();
    });
  }

  get objects(): ReadonlyMap<string, VirtualIp> {
    return this.#admitted;
  }

  /** The version up to which all is admitted; null while nothing was. */
  get version(): string | null {
    return this.#isComplete ? (this.#source?.version ?? null) : this.#version;
  }

  /** Takes what is followed. Answers what changes here. */
  take(
    changes: readonly Change<VirtualIp>[],
    objects: ReadonlyMap<string, VirtualIp>,
  ): readonly Change<VirtualIp>[] {
    for (const { after } of changes) if (after !== null) this.#standing.noteAbsent(after.spec.absent);
    const before = this.version;
    const isOpen = this.#standing.isLiving && (this.#source?.listed ?? -1) >= this.#needed;
    const isAll = isOpen && !this.#isComplete;
    const keys = isAll
      ? new Set([...this.#admitted.keys(), ...objects.keys()])
      : changes.map(({ key }) => key);
    [this.#isComplete, this.#version] = [isOpen, before];
    return [...keys].flatMap((key) => this.#admit(key, objects.get(key) ?? null, isOpen));
  }

  #admit(key: string, told: VirtualIp | null, isOpen: boolean): Change<VirtualIp>[] {
    const before = this.#admitted.get(key) ?? null;
    const after = isOpen || told === null ? told : limit(told, before);
    if (after === before) return [];
    if (after === null) this.#admitted.delete(key);
    else this.#admitted.set(key, after);
    return [{ key, before, after }];
  }
}

/** With those Services that it had. */
function limit(told: VirtualIp, before: VirtualIp | null): VirtualIp | null {
  if (before === null) return null;
  const uids = new Set(before.spec.services.map(({ uid }) => uid));
  const services = told.spec.services.filter(({ uid }) => uids.has(uid));
  return { ...told, spec: { ...told.spec, services } };
}
