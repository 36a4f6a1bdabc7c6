import { type World, startProcess } from './world.ts';
import type { Kernels, Changed } from './kernels.ts';
import type { Product } from './product.ts';
import { vip, endpointSets, type EndpointSet } from './small-world.ts';
import { deeds } from './stranger.ts';
import { isToolRefusing } from '../../../support/fakes/refusal.ts';
import { type ProxyWish, runKubeProxy } from './kube-proxy.ts';
import type { HealthState } from '../../../../agent/health/judge.ts';
import { answerDeath } from './steps.ts';

/** Something that happens to the agent, and not by it. */
interface Action {
  readonly name: string;
  /** The world after it; the same object where it cannot happen. */
  readonly run: (world: World) => World | Promise<World>;
}

/** All that can happen in the small world at any time. */
export function listActions(kernels: Kernels, product: Product): readonly Action[] {
  return [
    { name: 'the agent is killed, and started anew', run: (world) => restart(world, product) },
    { name: 'the VIP comes or goes', run: (world) => moveVip(world, kernels) },
    ...strangerActions(kernels),
    ...proxyActions(kernels),
    ...healthActions(product),
    ...apiActions,
  ];
}

async function restart(world: World, product: Product): Promise<World> {
  // Nobody has told the new process what a lost API said.
  const api = world.api?.isAnswered === true ? world.api : null;
  return { ...world, api, process: startProcess(await product.recall(world.saved)) };
}

async function moveVip(world: World, kernels: Kernels): Promise<World> {
  const { family, address } = vip;
  const isHeld = world.kernel.reading.addresses.length > 0;
  const { to } = await kernels.change(world.kernel, 'the VIP moves', (kernel) => {
    if (isHeld) kernel.removeAddress(address);
    else kernel.addAddress({ family, address, device: 'eth0' });
    return false;
  });
  return { ...world, kernel: to };
}

function strangerActions(kernels: Kernels): Action[] {
  return Object.entries(deeds).map(([deed, act]) => ({
    name: `the stranger ${deed}`,
    run: async (world) => {
      const { to } = await kernels.change(world.kernel, deed, (kernel) =>
        isToolRefusing(() => {
          act(kernel);
        }),
      );
      return to === world.kernel ? world : { ...world, kernel: to };
    },
  }));
}

const wishes: readonly ProxyWish[] = [
  ...(['iptables', 'ipvs', 'nftables'] as const).flatMap((mode) =>
    (Object.keys(endpointSets) as EndpointSet[]).map((set) => ({ mode, set })),
  ),
  { mode: 'none', set: 'none' },
];

/** kube-proxy is started in a mode, or hears of other apiservers, or tries once more. */
export async function syncProxy(world: World, proxy: ProxyWish, kernels: Kernels): Promise<Changed> {
  return kernels.change(world.kernel, `kube-proxy ${proxy.mode} ${proxy.set}`, (kernel) =>
    runKubeProxy(kernel, proxy),
  );
}

function proxyActions(kernels: Kernels): Action[] {
  return wishes.map((proxy) => ({
    name:
      proxy.mode === 'none' ? 'kube-proxy is removed' : `kube-proxy in ${proxy.mode} mode lists ${proxy.set}`,
    run: async (world) => ({ ...world, proxy, kernel: (await syncProxy(world, proxy, kernels)).to }),
  }));
}

/** Two of the apiservers live or die; one can also be on its way out. */
const turns: readonly (readonly [index: number, from: HealthState, to: HealthState])[] = [
  [0, 'ready', 'dead'],
  [0, 'dead', 'ready'],
  [1, 'ready', 'dead'],
  [1, 'dead', 'ready'],
  [2, 'ready', 'draining'],
  [2, 'draining', 'dead'],
  [2, 'ready', 'dead'],
  [2, 'dead', 'ready'],
];

function healthActions(product: Product): Action[] {
  return turns.map(([index, from, to]) => ({
    name: `apiserver ${index + 1} is ${to}`,
    run: (world) => {
      if (world.health[index] !== from) return world;
      const changed = { ...world, health: world.health.with(index, to) };
      return to === 'dead' ? answerDeath(changed, product) : changed;
    },
  }));
}

const apiActions: readonly Action[] = [
  ...(['three', 'two'] as const).map((set) => ({
    name: `the API lists ${set}`,
    run: (world: World) => ({ ...world, api: { set, isAnswered: true } }),
  })),
  { name: 'the API is lost', run: loseApi },
];

/** Its last word stays with the process that heard it, if that has asked. */
export function loseApi(world: World): World {
  if (world.api === null) return world;
  return { ...world, api: world.process.hasLooked ? { ...world.api, isAnswered: false } : null };
}
