import { parseAddress } from '../../lib/address/address.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { toObjectName } from '../../lib/services/address-name.ts';
import { type VirtualIp } from '../../lib/services/objects.ts';
import { Generations } from './generations.ts';
import { MultiMap, put } from './multi-map.ts';
import { listPools, listShareKeys, listUsers } from './object-parts.ts';
import { type World } from './world.ts';

type View = Pick<
  World,
  | 'virtualIps'
  | 'generationMs'
  | 'generationVersions'
  | 'lostVirtualIps'
  | 'serviceToVirtualIps'
  | 'shareKeyToVirtualIps'
  | 'poolToVirtualIps'
>;

/** All VirtualIPs, and what finds them. */
export class KnownVirtualIps {
  readonly all = new Map<string, VirtualIp>();
  readonly ofService = new MultiMap();
  readonly ofPool = new MultiMap();
  readonly #ofShareKey = new MultiMap();
  readonly #generations = new Generations();
  readonly #lost = new Map<string, VirtualIp>();

  /** One came, changed, or went. */
  change({ key, before, after }: Change<VirtualIp>): void {
    put(this.all, key, after);
    this.#generations.change(key, before, after);
    const [old, now] = [listUsers(before), listUsers(after)];
    // No step of ours deletes one that a Service has.
    put(this.#lost, key, after === null && old.length > 0 ? before : null);
    this.ofService.move(key, old, now);
    this.#ofShareKey.move(key, listShareKeys(before), listShareKeys(after));
    this.ofPool.move(key, listPools(before), listPools(after));
  }

  /** Whether there is one of an address, in canonical text. */
  hasAddress(text: string): boolean {
    const address = parseAddress(text);
    return address !== null && this.all.has(toObjectName(address));
  }

  /** What a world has of them. */
  view(nowMs: number): View {
    return {
      virtualIps: this.all,
      generationMs: this.#generations.since(nowMs),
      generationVersions: this.#generations.versions,
      lostVirtualIps: this.#lost,
      serviceToVirtualIps: this.ofService.map,
      shareKeyToVirtualIps: this.#ofShareKey.map,
      poolToVirtualIps: this.ofPool.map,
    };
  }
}
