import { runBalancer } from '../../balancer/main.ts';
import { type BalancerContext } from '../grammar/command-context.ts';

/** `vipnat balancer`: see runBalancer. */
export async function balancer({ config, options, given }: BalancerContext): Promise<number> {
  return await runBalancer(config, { ...options, given });
}
