import { type FlowSelection } from '../../../../lib/kernel/port.ts';
import { type Behaviour, FakeApiservers } from '../../../support/fakes/apiserver.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { SentLog } from '../../../support/fakes/sent-log.ts';
import { ordinaryConfig, type RunningAgent, startAgent } from '../../../support/agent/running-agent.ts';

/** Three apiservers. */
export const [one, two, three] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;

/** Where kube-proxy writes. */
export const nft = { family: 'ipv4', dialect: 'nft' } as const;

/** The agent's VIP. */
export const vip = toEndpoint('10.0.0.50:6443');

/** A kernel that knows how often its connections were counted. */
export class CountedKernel extends FakeKernel {
  counts = 0;

  override countFlows(...args: Parameters<FakeKernel['countFlows']>): Promise<ReadonlyMap<string, number>> {
    this.counts += 1;
    return super.countFlows(...args);
  }
}

/** An agent, and what is sent to apiservers. */
export type World = RunningAgent & { readonly kernel: CountedKernel; readonly sent: SentLog };

/** What an agent begins with. */
export interface Beginning {
  readonly listed?: readonly string[];
  /** To whom the kernel knows connections, of the agent's first VIP. */
  readonly flows?: readonly string[];
  /** And others. */
  readonly otherFlows?: readonly FlowSelection[];
  /** How the third one behaves. */
  readonly behaviour?: Behaviour;
  readonly vips?: typeof ordinaryConfig.vips;
}

/** An agent that has followed a kube-proxy with these apiservers for five seconds, while the kernel knows connections to some. */
export async function start(beginning: Beginning = {}): Promise<World> {
  const { listed = [one, two, three], flows = [three], behaviour = 'healthy', vips = [vip] } = beginning;
  const clock = new FakeClock();
  const kernel = new CountedKernel(clock);
  const sent = new SentLog();
  const apiservers = new FakeApiservers(clock, sent.listen(clock));
  apiservers.set(three, behaviour);
  syncKubeProxy(kernel, nft, listed.map(toEndpoint));
  for (const flow of [...flows.map((backend) => flowTo(backend)), ...(beginning.otherFlows ?? [])])
    kernel.trackFlow(flow);
  const agent = startAgent({ clock, kernel, apiservers, config: { ...ordinaryConfig, vips } });
  await clock.advance(5000);
  return { ...agent, kernel, sent };
}

/** A connection to the VIP that an apiserver has. */
export function flowTo(backend: string, isHalfOpen = false): FlowSelection {
  return { vip, backend: toEndpoint(backend), isHalfOpen };
}

/** kube-proxy lists these from now on. */
export async function list(world: World, listed: readonly string[]): Promise<void> {
  syncKubeProxy(world.kernel, nft, listed.map(toEndpoint));
  world.kernel.trigger('nft-generation');
  await world.clock.advance(3000);
}

/** Whether an apiserver is asked anything within five seconds. */
export async function isProbed({ clock, sent }: World, endpoint: string): Promise<boolean> {
  sent.clear();
  await clock.advance(5000);
  return sent.to(endpoint).connects.length > 0;
}
