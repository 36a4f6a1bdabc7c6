import { type HostFacts } from './host-facts.ts';

/** What puts vipnat's rules right: a running agent does it when it starts anew, without one a single run does. */
export function converge({ agent, flags }: Pick<HostFacts, 'agent' | 'flags'>): string[] {
  return agent === null ? [`vipnat run --once ${flags}`] : ['systemctl restart vipnat'];
}
