import { type System } from '../engine/explore.ts';
import { listActions, syncProxy } from './actions.ts';
import { Invariants } from './invariants.ts';
import { Kernels } from './kernels.ts';
import { Looks } from './looks.ts';
import { type ProxyWish } from './kube-proxy.ts';
import { type Product } from './product.ts';
import { stepAgent } from './steps.ts';
import { startProcess, toKey, type World } from './world.ts';

/** A small world to be searched, and what it is held to. */
interface Host {
  readonly system: System<World>;
  readonly kernels: Kernels;
  readonly looks: Looks;
  readonly invariants: Invariants;
}

/** Nobody takes longer than this from any state. */
const maxSteps = 30;

/** The small world, beginning with each of these kube-proxies, with an agent that starts now. */
export async function createHost(
  product: Product,
  wishes: readonly (ProxyWish & { isAnswering: boolean })[],
): Promise<Host> {
  const kernels = new Kernels();
  const parts = { kernels, product, looks: new Looks(product) };
  const invariants = new Invariants(parts);
  const kernel = await kernels.createEmpty();
  const initial: { name: string; state: World }[] = [];
  for (const { isAnswering, ...proxy } of wishes) {
    const empty: World = {
      kernel,
      proxy,
      isProxyAnswering: isAnswering,
      health: ['ready', 'ready', 'ready'],
      api: null,
      saved: {},
      process: startProcess(),
    };
    const name = `kube-proxy in mode ${proxy.mode} ${isAnswering ? 'answers' : 'does not answer'}`;
    initial.push({ name, state: { ...empty, kernel: (await syncProxy(empty, proxy, kernels)).to } });
  }
  const system: System<World> = {
    initial,
    toKey,
    step: (world) => stepAgent(world, parts),
    actions: listActions(kernels, product),
    check: (node) => invariants.check(node),
    maxSteps,
  };
  return { system, kernels, invariants, looks: parts.looks };
}
