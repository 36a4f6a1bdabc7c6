/** What one life of a balancer was told of EndpointSlices, and what that means for an address: judged apart from the product's code. */
import { type Question } from './memory-network.ts';

interface ToldEndpoint {
  readonly addresses: readonly string[];
  readonly conditions: { readonly ready?: boolean; readonly terminating?: boolean };
  readonly targetRef: { readonly uid: string };
}

interface ToldSlice {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly endpoints?: readonly ToldEndpoint[];
}

/** A list, or a line of a watch. */
export interface Told<T> {
  readonly items?: readonly T[];
  readonly type?: string;
  readonly object?: T;
}

type Side = Map<string, ToldSlice>;

/** What is to become of new connections: `maybe` where both answers are right. */
type Verdict = 'yes' | 'no' | 'maybe';

interface Judged {
  readonly verdict: Verdict;
  readonly sinceMs: number;
}

/** Of one life. Services are named `NAMESPACE/NAME`. */
export class ToldSlices {
  readonly #nowMs: () => number;
  readonly #own: Side = new Map();
  readonly #early: Side = new Map();
  /** Services to the pods of their early slices, by UID, and what Kubernetes' own slices have said of them since. */
  readonly #serviceToPods = new Map<string, Map<string, Set<'listed' | 'ready' | 'unknown'>>>();
  readonly #serviceToJudged = new Map<string, Map<string, Judged>>();
  #lists = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** What was answered to a question: a list, or a line of a watch. */
  take({ url }: Question, text: string): void {
    if (!url.pathname.endsWith('/endpointslices')) return;
    const isEarly = (url.searchParams.get('labelSelector') ?? '').includes('vipnat.io');
    const side = isEarly ? this.#early : this.#own;
    const told = JSON.parse(text) as Told<ToldSlice>;
    const touched = told.items === undefined ? takeEvent(side, told) : takeList(side, told.items);
    if (told.items !== undefined) this.#lists += 1;
    for (const service of touched) {
      this.#remember(service);
      this.#judgeAll(service);
    }
  }

  /** What it knows of an address, and since when. */
  judge(service: string, address: string): Judged {
    return this.#serviceToJudged.get(service)?.get(address) ?? { verdict: 'no', sinceMs: -Infinity };
  }

  /** The addresses for which it has a verdict. */
  list(service: string): ReadonlyMap<string, Judged> {
    return this.#serviceToJudged.get(service) ?? new Map<string, Judged>();
  }

  /** A pod that leaves the early slices and comes back is as a new one. */
  #remember(service: string): void {
    const before = this.#serviceToPods.get(service);
    const early = [...listEndpoints(this.#early, service).values()].flat();
    const pods = new Map(
      early.map(({ targetRef: { uid } }) => [
        uid,
        before?.get(uid) ?? new Set(this.#lists < 2 ? (['unknown'] as const) : []),
      ]),
    );
    this.#serviceToPods.set(service, pods);
    for (const { targetRef, conditions } of [...listEndpoints(this.#own, service).values()].flat()) {
      const known = pods.get(targetRef.uid);
      known?.add('listed');
      if (conditions.ready === true) known?.add('ready');
    }
  }

  #judgeAll(service: string): void {
    const before = this.#serviceToJudged.get(service) ?? new Map<string, Judged>();
    const [own, early] = [this.#own, this.#early].map((side) => listEndpoints(side, service));
    const addresses = new Set([...before.keys(), ...(own?.keys() ?? []), ...(early?.keys() ?? [])]);
    const after = new Map(
      [...addresses].map((address): [string, Judged] => {
        const verdict = this.#judge(service, own?.get(address) ?? [], early?.get(address) ?? []);
        const known = before.get(address);
        return [address, known?.verdict === verdict ? known : { verdict, sinceMs: this.#nowMs() }];
      }),
    );
    this.#serviceToJudged.set(service, after);
  }

  #judge(service: string, own: readonly ToldEndpoint[], early: readonly ToldEndpoint[]): Verdict {
    const uids = new Set([...own, ...early].map(({ targetRef }) => targetRef.uid));
    if (uids.size > 1 || this.#lists < 2) return 'maybe';
    if ([...own, ...early].some(({ conditions }) => conditions.terminating === true)) return 'no';
    if (own.some(({ conditions }) => conditions.ready === true)) return 'yes';
    const soon = early.find(({ conditions }) => conditions.ready === true);
    return soon === undefined ? 'no' : this.#judgeEarly(service, soon, own.length > 0);
  }

  /** One that Kubernetes does not call ready. */
  #judgeEarly(service: string, { targetRef: { uid } }: ToldEndpoint, isListed: boolean): Verdict {
    const known = this.#serviceToPods.get(service)?.get(uid);
    if (known?.has('ready') === true) return 'no';
    if (isListed) return 'yes';
    return known?.has('listed') === true && !known.has('unknown') ? 'no' : 'maybe';
  }
}

/** Answers the Services that it is about. */
function takeList(slices: Side, items: readonly ToldSlice[]): ReadonlySet<string> {
  const before = [...slices.values()];
  slices.clear();
  for (const slice of items) slices.set(nameSlice(slice), slice);
  return new Set([...before, ...items].map(nameOwner));
}

function takeEvent(slices: Side, { type, object }: Told<ToldSlice>): ReadonlySet<string> {
  if (object === undefined || type === 'BOOKMARK' || type === 'ERROR') return new Set();
  if (type === 'DELETED') slices.delete(nameSlice(object));
  else slices.set(nameSlice(object), object);
  return new Set([nameOwner(object)]);
}

function nameSlice({ metadata: { namespace, name } }: ToldSlice): string {
  return `${namespace}/${name}`;
}

function listEndpoints(slices: Side, service: string): Map<string, ToldEndpoint[]> {
  const own = [...slices.values()].filter((slice) => nameOwner(slice) === service);
  return Map.groupBy(
    own.flatMap(({ endpoints = [] }) => endpoints),
    ({ addresses }) => addresses[0] ?? '',
  );
}

function nameOwner({ metadata: { namespace, labels } }: ToldSlice): string {
  return `${namespace}/${labels?.['kubernetes.io/service-name'] ?? labels?.['vipnat.io/service-name'] ?? ''}`;
}
