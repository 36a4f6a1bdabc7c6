/** Other nodes, the network between them and this one, and a clock that stands still. */
import { createRecordingLogger } from '../../../support/fakes/logger.ts';
import { type Steps, playSteps, toChecks } from '../../steps.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { NodeHealth } from '../../../../balancer/nodes/health.ts';
import { type Lease, toLeaseResource } from '../../../../lib/api/node.ts';
import type { ConnectOutcome } from '../../../../lib/http/client.ts';
import type { Endpoint } from '../../../../lib/net.ts';
import { afterEach, expect, test } from '@jest/globals';

/**
 * What a node does with a connect: opens it where a program listens and refuses it elsewhere, refuses all, or drops all. With `filtered`, a firewall drops
 * it where nobody listens; with `hung`, the program accepts nothing, so the kernel drops what its queue has no room for.
 */
type Manner = 'open' | 'refused' | 'silent' | 'filtered' | 'hung';

/** Where a program listens. */
const usualPort = 10_256;

const backlog = 64;

/** A balancer's node health, as a test turns it. */
export class FakeNodes {
  readonly clock = new FakeClock();
  /** Address to what happens there; nobody is where nothing is said. */
  readonly addressToManner = new Map<string, Manner>();
  /** Address to how many connects were opened there. */
  readonly addressToQueued = new Map<string, number>();
  /** Node to its address, as the Leases say it. */
  readonly nodeToAddress = new Map<string, string>();
  /** Whether this node's own network works. */
  isCut = false;
  /** Rejects lists of Leases with it. */
  refusal: Error | null = null;
  lists = 0;
  readMs = 0;
  isApiHung = false;
  /** Nodes that do not answer another one, as its Lease says. */
  named: readonly string[] = [];
  /** Node to when its balancer has renewed its Lease; none where nothing is said. */
  readonly nodeToRenewal = new Map<string, string>();
  /** Those whose balancers renew it each 10 s. */
  renewing: readonly string[] = [];
  /** When a Lease was read by itself, and of which node. */
  readonly reads: { readonly atMs: number; readonly node: string }[] = [];
  readonly connects: { readonly atMs: number; readonly address: string }[] = [];
  readonly #logger = createRecordingLogger();
  readonly health: NodeHealth;

  constructor(count: number, { port = usualPort }: { readonly port?: number } = {}) {
    for (let number = 1; number <= count; number += 1) this.place(`w${number}`, `10.0.0.${number}`);
    this.health = new NodeHealth({
      clock: this.clock,
      random: () => 0.5,
      port,
      node: 'own',
      listLeases: () => this.#listLeases(),
      readRenewal: (node) => this.#readRenewal(node),
      families: () => new Set(['ipv4']),
      connect: (endpoint, limitMs) => this.#connect(endpoint, limitMs),
      logger: this.#logger,
      onChange: () => undefined,
    });
    this.health.start();
    this.health.watch(new Set(this.nodeToAddress.keys()));
  }

  /** A node is at an address, and opens connections. */
  place(node: string, address: string): void {
    this.nodeToAddress.set(node, address);
    this.addressToManner.set(address, 'open');
  }

  set(manner: Manner, ...nodes: readonly string[]): void {
    for (const node of nodes) this.addressToManner.set(this.nodeToAddress.get(node) ?? '', manner);
  }

  /** Until all nodes have been asked at the pace of a node that holds addresses. */
  async settle(): Promise<void> {
    await this.clock.advance(3000);
    this.health.setHolding(true);
    await this.clock.advance(1000);
  }

  get told(): readonly string[] {
    return this.#logger.lines.map(({ message }) =>
      toldTexts.reduce((text, [line, short]) => text.replace(line, short), message),
    );
  }

  get out(): readonly string[] {
    return [...this.health.outages.out].sort();
  }

  get lost(): readonly string[] {
    return [...this.health.outages.lost].sort();
  }

  async #listLeases(): Promise<readonly Lease[]> {
    this.lists += 1;
    await Promise.resolve();
    if (this.refusal !== null) throw this.refusal;
    if (this.isApiHung) await new Promise(() => undefined);
    const unresponsive = JSON.stringify(this.named.map((node) => ({ node, since: '2026' })));
    const { schema } = toLeaseResource('vipnat-system');
    return [...this.nodeToAddress].map(([node, address]) =>
      schema.parse({
        metadata: {
          name: `vipnat-lb-${node}`,
          namespace: 'vipnat-system',
          uid: node,
          resourceVersion: '1',
          annotations: {
            'vipnat.io/node-addresses': JSON.stringify(['fd00::1', address]),
            'vipnat.io/unresponsive-nodes': unresponsive,
          },
        },
      }),
    );
  }

  async #readRenewal(node: string): Promise<string | null> {
    this.reads.push({ atMs: this.clock.now(), node });
    await new Promise<void>((resolve) => this.clock.schedule(this.readMs, resolve));
    if (this.refusal !== null) throw this.refusal;
    const renewal = this.nodeToRenewal.get(node) ?? null;
    return this.renewing.includes(node) ? `${Math.floor(this.clock.now() / 10_000)}` : renewal;
  }

  #connect({ address, port }: Endpoint, limitMs: number): Promise<ConnectOutcome> {
    this.connects.push({ atMs: this.clock.now(), address });
    const manner = this.isCut ? 'silent' : this.#answer(address, port);
    return new Promise((resolve) =>
      this.clock.schedule(manner === 'silent' ? limitMs : 1, () => {
        resolve({ kind: manner });
      }),
    );
  }

  #answer(address: string, port: number): 'open' | 'refused' | 'silent' {
    const manner = this.addressToManner.get(address) ?? 'silent';
    if (manner === 'silent' || manner === 'refused') return manner;
    if (port !== usualPort) return manner === 'filtered' ? 'silent' : 'refused';
    const queued = (this.addressToQueued.get(address) ?? 0) + 1;
    this.addressToQueued.set(address, queued);
    return manner === 'hung' && queued > backlog ? 'silent' : 'open';
  }
}

/** What each line of the log says of which node. */
const toldTexts: readonly (readonly [RegExp, string])[] = [
  [/^node (\S+) \(.*\) does not answer: its pods get no new connection from this node$/, '$1 out'],
  [/^node (\S+) still does not answer, and its Lease has expired: .* are forgotten$/, '$1 lost'],
  [/^node (\S+) answers again\. .* after its balancer has reported, or after a minute$/, '$1 returns'],
  [/^node (\S+) is in use again after \d.*: its pods get connections$/, '$1 back'],
  [/^node (\S+) does not answer at \S+:\d+, and never has: a firewall .*$/, '$1 never answers'],
  [/^node (\S+) does not answer at \S+:\d+, but its balancer reports: a firewall .*$/, '$1 reports'],
  [/^node (\S+) does not answer either\. Half of the nodes are out, so its pods stay in use$/, '$1 stays'],
  [/^vipnat does not learn where other nodes are: (.*)\. If such .*$/, '$1'],
  [/^vipnat can list the Leases of nodes again$/, 'listed'],
];

const toNames = (detail: string) => (detail === '-' ? [] : detail.split(' '));

/** What happens to nodes: `w1 w2` are some of them. */
function listCauses(nodes: FakeNodes): Steps {
  const { clock, health } = nodes;
  const behave = (manner: Manner) => (who: string) => {
    nodes.set(manner, ...toNames(who));
  };
  return {
    ...{ open: behave('open'), refused: behave('refused'), silent: behave('silent') },
    ...{ filtered: behave('filtered'), hung: behave('hung') },
    wait: (ms) => clock.advance(Number(ms)),
    jump: (ms) => {
      clock.jump(Number(ms));
    },
    settle: () => nodes.settle(),
    cut: () => (nodes.isCut = true),
    join: () => (nodes.isCut = false),
    hold: health.setHolding.bind(health, true),
    release: health.setHolding.bind(health, false),
    place: (detail) => {
      const [node = '', address = ''] = detail.split(' ');
      nodes.place(node, address);
    },
    leave: (address) => nodes.addressToManner.delete(address),
    watch: (who) => {
      health.watch(new Set(toNames(who)));
    },
    refuse: (text) => (nodes.refusal = new Error(text)),
    allow: () => (nodes.refusal = null),
    slow: (ms) => (nodes.readMs = Number(ms)),
    hang: () => (nodes.isApiHung = true),
    name: (who) => (nodes.named = toNames(who)),
    renew: (text) => nodes.nodeToRenewal.set('w2', text),
    renews: (who) => (nodes.renewing = toNames(who)),
    // All have balancers, and w2 has just been lost.
    lose: async () => {
      for (const node of nodes.nodeToAddress.keys()) nodes.nodeToRenewal.set(node, 'before');
      await playNodes(nodes, 'silent w2; wait 13000; out w2');
    },
  };
}

/** What is so: `-` is nobody. Counts are those since `mark`, as `FROM TO`, or one number. */
function listChecks(nodes: FakeNodes): Steps {
  const marks = { connects: 0, lists: 0, reads: 0 };
  const count = () => {
    return { connects: nodes.connects.length, lists: nodes.lists, reads: nodes.reads.length };
  };
  const check = (kind: keyof typeof marks) => (detail: string) => {
    const [from = 0, to = from] = detail.split(' ').map(Number);
    const found = count()[kind] - marks[kind];
    expect({ kind, found, isSo: found >= from && found <= to }).toEqual({ kind, found, isSo: true });
  };
  return {
    mark: () => Object.assign(marks, count()),
    ...{ connects: check('connects'), lists: check('lists'), reads: check('reads') },
    'asks-not': (address) => {
      expect(nodes.connects.at(-1)?.address).not.toBe(address);
    },
    ...toChecks({
      out: (who) => [nodes.out, toNames(who)],
      lost: (who) => [nodes.lost, toNames(who)],
      acquainted: (isSo) => [nodes.health.isAcquainted, isSo === 'yes'],
      told: (lines) => [nodes.told.join(', ') || '-', lines],
      unheard: (who) => {
        const names = nodes.health.unheard.map((one) => one.replace(/ \([\d.]+:10256\)$/, ''));
        return [
          [names, [...nodes.health.outages.unheard].sort()],
          [toNames(who), toNames(who)],
        ];
      },
      asked: (address) => [nodes.connects.map((one) => one.address), expect.arrayContaining([address])],
      read: (who) => [[...new Set(nodes.reads.map(({ node }) => node))], toNames(who)],
    }),
  };
}

/** Plays steps, one after the other: `silent w2; wait 800; out w2`. */
async function playNodes(nodes: FakeNodes, timeline: string): Promise<void> {
  await playSteps({ ...listCauses(nodes), ...listChecks(nodes) }, timeline);
}

/** A test for each title. Three nodes, or as many as `8 nodes` says, have been asked for a while, unless `fresh` comes first. */
export function testNodes(titleToTimeline: Readonly<Record<string, string>>): void {
  const { started, start } = useFakeNodes();
  test.each(Object.entries(titleToTimeline))('%s', async (_, timeline) => {
    const [, count = '3', isFresh, steps = ''] = /^(?:(\d) nodes; )?(fresh; )?(.*)$/.exec(timeline) ?? [];
    if (isFresh !== undefined) started.push(new FakeNodes(Number(count)));
    const nodes = started.at(-1) ?? (await start(Number(count)));
    await playNodes(nodes, steps);
  });
}

/** Starts what is `started` in tests, and ends it after each: nothing is under way then but connects. */
export function useFakeNodes(): {
  readonly started: FakeNodes[];
  readonly start: (count: number) => Promise<FakeNodes>;
} {
  const started: FakeNodes[] = [];
  afterEach(() => {
    for (const nodes of started.splice(0)) {
      nodes.health.stop();
      expect(nodes.clock.pending).toBeLessThanOrEqual(nodes.connects.length);
    }
  });
  const start = async (count: number) => {
    const nodes = new FakeNodes(count);
    started.push(nodes);
    await nodes.settle();
    return nodes;
  };
  return { started, start };
}
