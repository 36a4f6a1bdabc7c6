import { type ServiceSlice, endpointSlices } from '../../../../lib/api/service.ts';
import { type EarlySlice, earlySlices } from '../../../../lib/api/endpoints.ts';
import { EarlyEndpoints } from '../../../../balancer/services/index.ts';
import { beforeEach, describe, test, expect } from '@jest/globals';
import { fc } from '../../../support/random/fc.ts';
import { type Steps, testSteps, toChecks } from '../../steps.ts';

const key = 'default/web';

/** What one side says of a pod: not there, not ready, for its own node alone, ready, ending, and ending of a Service that publishes all. */
type Word = '-' | 'n' | 'o' | 'r' | 'e' | 'p';

interface Said {
  readonly address: string;
  readonly uid?: string | undefined;
  readonly word: Word;
  readonly hints?: object;
  readonly nodeName?: string;
}

const conditions = {
  n: { ready: false, serving: false, terminating: false },
  o: { ready: false, serving: true, terminating: false },
  r: { ready: true, serving: true, terminating: false },
  e: { ready: false, serving: true, terminating: true },
  p: { ready: true, serving: true, terminating: true },
};

const toBody = (name: string, said: readonly Said[]) => ({
  metadata: { name, namespace: 'default', uid: 'u', resourceVersion: '1', labels: {} },
  addressType: 'IPv4',
  ports: [{ name: '', port: 8080, protocol: 'TCP' }],
  endpoints: said.flatMap(({ address, uid, word, hints, nodeName = 'n1' }) =>
    word === '-'
      ? []
      : [
          {
            ...{ addresses: [address], nodeName, zone: 'a', conditions: conditions[word] },
            ...(hints === undefined ? {} : { hints }),
            ...(uid === undefined ? {} : { targetRef: { kind: 'Pod', uid } }),
          },
        ],
  ),
});

const toSlice = (said: readonly Said[]): ServiceSlice => endpointSlices.schema.parse(toBody('web', said));
const toEarly = (said: readonly Said[]): EarlySlice => earlySlices.schema.parse(toBody('web-early', said));

/** Both sides' words, one after the other, and who takes connections. */
class Sides {
  readonly endpoints = new EarlyEndpoints();
  isLocal = false;
  readonly #node: string;
  #slice = toSlice([]);
  #early = toEarly([]);

  constructor(node = 'n1') {
    this.#node = node;
  }

  tell(...said: readonly Said[]): this {
    this.#slice = toSlice(said);
    this.endpoints.takeSlice(key, this.#slice);
    return this;
  }

  tellEarly(...said: readonly Said[]): this {
    this.#early = toEarly(said);
    const isThere = (this.#early.endpoints ?? []).length > 0;
    this.endpoints.takeEarly(key, isThere ? [this.#early] : [], [this.#slice]);
    return this;
  }

  get merged(): readonly ServiceSlice[] {
    return this.endpoints.merge(key, [this.#slice], [this.#early], {
      node: this.#node,
      isLocal: this.isLocal,
    });
  }

  /** Addresses that take connections, as any is ready. */
  get ready(): string[] {
    const all = this.merged.flatMap(({ endpoints }) => endpoints ?? []);
    return [...new Set(all.filter((one) => one.conditions?.ready).map((one) => one.addresses[0] ?? ''))];
  }
}

const a = (word: Word): Said => ({ address: '10.244.1.2', uid: 'a', word });
const b = (word: Word): Said => ({ address: '10.244.2.2', uid: 'b', word });

let sides: Sides;

beforeEach(() => {
  sides = new Sides();
  sides.endpoints.follow();
});

/** `a:r b:n`: pods with their words; `a.old:e` another one that had the address, `a.-:r` one that is not said. */
const readSaid = (text: string) =>
  text.split(' ').map((one): Said => {
    const [, name = 'a', uid = name, word = 'r'] = /^(.)(?:\.(.+))?:(.)$/.exec(one) ?? [];
    return { ...(name === 'a' ? a('r') : b('r')), uid: uid === '-' ? undefined : uid, word: word as Word };
  });

const nameToAddress: Readonly<Record<string, string>> = { a: '10.244.1.2', b: '10.244.2.2' };

function createSteps(): Steps {
  const follow = () => {
    sides.endpoints.follow();
  };
  return {
    follow,
    /** Another process, which does not follow yet. */
    anew: () => (sides = new Sides()),
    at: (node) => {
      sides = new Sides(node);
      follow();
    },
    tell: (text) => sides.tell(...readSaid(text)),
    early: (text) => sides.tellEarly(...readSaid(text)),
    ...toChecks({
      ready: (names) => [sides.ready.toSorted(), names.split(' ').flatMap((one) => nameToAddress[one] ?? [])],
      awaited: (count) => [sides.endpoints.awaited.length, Number(count)],
      first: (word) => [sides.merged[0]?.endpoints?.[0]?.conditions, conditions[word as 'e']],
    }),
  };
}

describe('a pod of an early slice', () => {
  testSteps(createSteps, {
    'takes connections before Kubernetes calls it ready, whether or not its slices have it yet':
      'early a:r; ready a; tell a:n b:r; ready a b; awaited 1; tell a:r b:r; ready a b; awaited 0',
    'with policy Local takes connections of its own node first':
      'early a:o; ready a; early a:r; ready a; at n2; early a:o; ready -; early a:r; ready a',
    'was ready once, even if nobody looked meanwhile': 'tell a:r; early a:r; tell a:n; ready -',
    'ends as soon as either side says so':
      'tell a:r b:r; early a:e; ready b; first e; tell a:e b:r; early a:r; ready b',
    'that ends takes connections on where its Service publishes pods that are not ready, whoever says it first':
      'tell a:r b:r; early a:p; ready a b; tell a:p b:r; ready a b; awaited 0',
    // At last it moved from one slice to another.
    'takes none when it is gone from Kubernetes slices, though the early one stays':
      'tell a:n; early a:r; tell b:r; ready b; tell a:n b:r; ready a b',
    'that a process finds at its start counts only if Kubernetes slices have it':
      'anew; early a:r b:r; tell a:n; follow; ready a',
    'is known by its address where Kubernetes slices say no pod':
      'tell a.-:r; early a:r; tell a.-:n; ready -',
  });

  test('is the same pod for slow start before and after Kubernetes calls it ready', () => {
    const readPods = () =>
      sides.merged.flatMap(({ endpoints }) => endpoints?.map(({ targetRef }) => targetRef));
    sides.tellEarly(a('r'));
    const early = readPods();
    expect(early).toEqual([expect.any(Number)]);
    sides.tell(a('r')).tellEarly();
    expect(readPods()).toEqual(early);
  });

  test.each([
    [{ at: 'n1', isLocal: true, nodeName: 'n2' }, '10.244.1.2'],
    [{ at: 'n1', isLocal: true, nodeName: 'n1' }, ''],
    [{ at: 'n2', isLocal: true, nodeName: 'n2' }, ''],
    [{ at: 'n1', isLocal: false, nodeName: 'n2' }, ''],
  ])('with policy Local is the last choice of its own node while no controller leads: %j', (given, last) => {
    const { at, isLocal, nodeName } = given;
    const there = Object.assign(new Sides(at), { isLocal });
    there.endpoints.follow();
    there.endpoints.isControllerAway = true;
    expect(there.tell(a('n'), { ...b('r'), nodeName }).tellEarly(a('r')).ready).toEqual(['10.244.2.2']);
    const all = there.merged.flatMap(({ endpoints }) => endpoints ?? []);
    const serving = all.filter((one) => one.conditions?.serving === true && one.conditions.terminating);
    expect(serving.map(({ addresses }) => addresses[0]).join()).toBe(last);
  });

  test('has hints for its own node and zone where others have some, so that these count on', () => {
    const hinted = { ...b('r'), hints: { forZones: [{ name: 'b' }] } };
    const added = sides.tell(hinted).tellEarly(a('r')).merged.at(-1);
    expect(added?.endpoints?.[0]?.hints).toEqual({ forZones: [{ name: 'a' }], forNodes: [{ name: 'n1' }] });
  });

  test.each(['no other', 'others without hints', 'another one with hints that takes none'])(
    'has no hint beside %s: all nodes send connections to it',
    (others) => {
      const peers = { 'no other': [], 'others without hints': [b('r')] }[others];
      sides.tell(...(peers ?? [{ ...b('n'), hints: { forZones: [{ name: 'b' }] } }])).tellEarly(a('r'));
      expect(sides.merged.at(-1)?.endpoints?.[0]).toMatchObject({ addresses: ['10.244.1.2'] });
      expect(sides.merged.at(-1)?.endpoints?.[0]?.hints).toBeUndefined();
    },
  );
});

test('without early slices, slices are the same objects as before', () => {
  const slices = [toSlice([a('r')])];
  expect(sides.endpoints.merge(key, slices, [], { node: 'n1', isLocal: false })).toBe(slices);
  sides.tellEarly(a('r')).tellEarly();
  expect(sides.endpoints.merge(key, slices, [], { node: 'n1', isLocal: false })).toBe(slices);
  expect(sides.endpoints.awaited).toEqual([]);
});

/** One side says something new of one of two pods, which get one address one after the other. */
const step = fc.record({
  isEarly: fc.boolean(),
  at: fc.integer({ min: 0, max: 1 }),
  word: fc.constantFrom<Word>('-', 'n', 'r', 'e'),
  isNext: fc.boolean(),
});

test('whatever both sides say, and in whatever order: the rule holds', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const world = new Sides();
      world.endpoints.follow();
      const addresses = ['10.244.1.2', '10.244.2.2'];
      const state: { address: string; life: number; told: Word; early: Word }[] = addresses.map(
        (address) => ({ address, life: 0, told: '-', early: '-' }),
      );
      // By pod: what Kubernetes' slices have said while an early slice had it.
      const [ready, listed] = [new Set<string>(), new Set<string>()];
      for (const { isEarly, at, word, isNext } of steps) {
        const pod = state[at];
        if (pod === undefined) continue;
        if (isNext) Object.assign(pod, { life: pod.life + 1, told: '-', early: '-' });
        if (isEarly) pod.early = word;
        else pod.told = word;
        const name = `${pod.address} ${pod.life}`;
        const toSaid = (side: 'told' | 'early'): Said[] =>
          state.map((one) => ({ address: one.address, uid: `${one.address} ${one.life}`, word: one[side] }));
        world.tell(...toSaid('told'));
        world.tellEarly(...toSaid('early'));
        if (pod.early === '-') [ready, listed].forEach((set) => set.delete(name));
        else {
          if (pod.told === 'r') ready.add(name);
          if (pod.told !== '-') listed.add(name);
        }
        const expected = state.filter(({ address, life, told, early }) => {
          if (told === 'r') return early !== 'e';
          const isGone = told === '-' && listed.has(`${address} ${life}`);
          return early === 'r' && told !== 'e' && !isGone && !ready.has(`${address} ${life}`);
        });
        expect(world.ready.sort()).toEqual(expected.map(({ address }) => address));
      }
    }),
    { numRuns: 500 },
  );
});
