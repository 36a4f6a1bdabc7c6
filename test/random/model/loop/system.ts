import { type World, toKey } from '../host/world.ts';
import { type ProxyWish, runKubeProxy } from '../host/kube-proxy.ts';
import type { HealthState } from '../../../../agent/health/judge.ts';
import { LiveHost } from './live-host.ts';
import { deeds } from '../host/stranger.ts';
import { Kernels, oncePerKernel } from '../host/kernels.ts';
import type { Spoil } from './live-process.ts';
import type { System, Node } from '../engine/explore.ts';
import { Looks } from '../host/looks.ts';
import { product } from '../host/product.ts';
import { printForeign } from '../../property/tables.ts';
import { emptyState } from '../../../../agent/decide/decision.ts';
import { findWrongEnd } from '../host/oracle.ts';

/** A state of a world with a running loop: how it is come to, and what it then is. */
interface LiveState {
  readonly path: readonly string[];
  readonly world: World;
  readonly hidden: string;
  readonly writes: number;
  readonly breaches: readonly string[];
  readonly isTwofold: boolean;
}

const maxSteps = 60;

/** As in the host's model: what is under way, what undoes it, and the end of a bypass. */
const maxWrites = 8;

const step = 'the agent goes on';
const swap = 'of two calls the later one ends first';

const kubeProxies: Readonly<Record<string, ProxyWish>> = {
  'kube-proxy lists none': { mode: 'iptables', set: 'none' },
  'kube-proxy lists two': { mode: 'iptables', set: 'two' },
  'kube-proxy runs in nftables mode': { mode: 'nftables', set: 'three' },
  'kube-proxy is removed': { mode: 'none', set: 'none' },
};

const turns: Readonly<Record<string, readonly [number, HealthState]>> = {
  'apiserver 1 is dead': [0, 'dead'],
  'apiserver 1 is ready': [0, 'ready'],
  'apiserver 2 is dead': [1, 'dead'],
};

/** What can happen to it, by name; the names are all that a path is made of. */
const actions: Readonly<Record<string, (host: LiveHost) => Promise<void>>> = {
  'the agent is killed, and started anew': (host) => host.restart(),
  ...Object.fromEntries(
    Object.entries(turns).map(([name, turn]) => [name, (host) => host.setHealth(...turn)]),
  ),
  ...Object.fromEntries(
    Object.entries(kubeProxies).map(([name, wish]) => [name, (host) => host.syncProxy(wish)]),
  ),
  ...Object.fromEntries(
    Object.keys(deeds).map((deed) => [`the stranger ${deed}`, (host: LiveHost) => host.doDeed(deed)]),
  ),
};

/** Comes to states of one world again, by the same actions; goes on from the last one where it can. */
class Replay {
  readonly kernels = new Kernels();
  readonly #begin: () => LiveHost;
  #host: LiveHost | null = null;
  #path: readonly string[] = [];

  constructor(begin: () => LiveHost) {
    this.#begin = begin;
  }

  /** The state after one more action. */
  async goTo(before: readonly string[], name: string | null): Promise<LiveState> {
    const path = name === null ? before : [...before, name];
    const isNext = this.#host !== null && this.#path === before && name !== null;
    const host = isNext && this.#host !== null ? this.#host : this.#begin();
    for (const past of isNext ? path.slice(-1) : path) await perform(host, past);
    this.#host = host;
    this.#path = path;
    const { hidden, writes, breaches, isTwofold } = host;
    return { path, world: await host.show(this.kernels), hidden, writes, breaches, isTwofold };
  }
}

async function perform(host: LiveHost, name: string): Promise<void> {
  if (name === step) await host.goOn();
  else if (name === swap) await host.openGate(1);
  else await actions[name]?.(host);
}

/** A small world with the product's own loop, on which this kube-proxy runs at the start. */
export async function createLiveSystem(proxy: ProxyWish, spoil: Spoil): Promise<System<LiveState>> {
  const replay = new Replay(() => new LiveHost(proxy, spoil));
  const looks = new Looks(product);
  return {
    initial: [{ name: `kube-proxy runs in mode ${proxy.mode}`, state: await replay.goTo([], null) }],
    toKey: ({ world, hidden }) => `${toKey(world)} ${hidden}`,
    step: ({ path }) => replay.goTo(path, step),
    actions: [
      { name: swap, run: (state) => (state.isTwofold ? replay.goTo(state.path, swap) : state) },
      ...Object.keys(actions).map((name) => ({
        name,
        run: (state: LiveState) => (isPossible(state, name) ? replay.goTo(state.path, name) : state),
      })),
    ],
    check: (node) => check(node, looks),
    maxSteps,
  };
}

function isPossible({ world }: LiveState, name: string): boolean {
  const [index, state] = turns[name] ?? [];
  return index === undefined || world.health[index] !== state;
}

const printAllForeign = oncePerKernel(({ kernel }) => printForeign(kernel).join('\n'));

/** I1, I5 and I6 by what the kernel and the process themselves notice; I7, I9, I11 and the table of ways at rest. */
async function check(node: Node<LiveState>, looks: Looks): Promise<string[]> {
  const { state, next } = node;
  if (next === null) throw new Error('a state is checked after it was followed');
  const isSame = printAllForeign(state.world.kernel) === printAllForeign(next.state.world.kernel);
  let rest = next;
  while (rest.next !== null && rest.next !== rest) rest = rest.next;
  const writes = rest.state.writes - state.writes;
  return [
    ...state.breaches,
    ...(isSame ? [] : ['a write changes what is not ours (I5)']),
    ...(writes > maxWrites ? [`takes ${writes} writes to come to rest (I9)`] : []),
    ...(next === node ? await checkRest(state.world, looks) : []),
  ];
}

async function checkRest(world: World, looks: Looks): Promise<string[]> {
  const forgetful = { ...world.process, memory: { ...emptyState, endpoints: world.saved } };
  const { transactions } = await looks.look({ ...world, process: forgetful });
  const isRefused = runKubeProxy(world.kernel.kernel.copy(), world.proxy);
  return [
    ...findWrongEnd(world),
    ...(transactions.length === 0 ? [] : ['a new process finds something to write (I7, I4)']),
    ...(isRefused ? ['kube-proxy is still refused (I11)'] : []),
  ];
}
