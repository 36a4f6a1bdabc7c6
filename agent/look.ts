import { families } from '../lib/address/address.ts';
import { sortEndpoints } from '../lib/address/endpoint.ts';
import { type Kernel } from '../lib/kernel/port.ts';
import { backends } from '../lib/kernel/port.ts';
import { nftServiceChain } from '../lib/naming/kubernetes-service.ts';
import { type Assessment, assess } from './assess.ts';
import { type Config } from './config/config.ts';
import { findCandidates } from './discovery/candidates.ts';
import { type Watched } from './health/monitor.ts';
import { type HealthView } from './health/usable.ts';
import { type Memory } from './memory.ts';
import { interpret } from './observe.ts';
import { type Plan } from './plan.ts';

/** What a look needs of the world. */
export interface LookPorts {
  readonly kernel: Kernel;
  /** Asks kube-proxy itself, see discovery/proxy-mode.ts. */
  readonly askProxyMode: () => Promise<string | null>;
  readonly health: HealthSource;
}

/** Who says how apiservers are, see health/. */
export interface HealthSource {
  /** Told of all apiservers that a look finds; answers their health. Never rejects. */
  watch(watched: Watched): HealthView | Promise<HealthView>;
}

/** All of the kernel, always: leftovers may be in any backend and family. */
export const everything = { families, backends, nftServiceChain };

/**
 * Reads everything and assesses it. Writes nothing.
 * @throws VipnatError when any part cannot be read or understood (I1).
 */
export async function look(
  { kernel, askProxyMode, health }: LookPorts,
  config: Config,
  memory: Memory,
): Promise<Assessment> {
  const [reading, asked] = await Promise.all([
    kernel.read(everything),
    config.proxyMode === 'auto' ? askProxyMode() : null,
  ]);
  const observation = interpret(reading, asked, config);
  const found = config.vips.flatMap((vip) => findCandidates(vip, observation, config, memory).value);
  const view = await health.watch({
    endpoints: sortEndpoints(found),
    localAddresses: new Set(observation.addresses.map(({ address }) => address)),
  });
  return assess({ observation, health: view, memory }, config);
}

/** Writes a plan, one transaction after the other; the first that fails ends it. */
export async function applyPlan(kernel: Kernel, { transactions }: Plan): Promise<void> {
  for (const transaction of transactions) await kernel.apply(transaction);
}
