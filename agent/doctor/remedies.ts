import { families, type Family } from '../../lib/address/address.ts';
import { type Config } from '../config/config.ts';
import { quoteText } from '../config/setting.ts';
import { type HostProcess } from '../../lib/kernel/processes.ts';
import { type NotChecked } from './fact.ts';
import { type HostFacts } from './host-facts.ts';

/** What puts vipnat's rules right: a running agent does it when it starts anew, without one a single run does. */
export function converge({ agent, flags }: Pick<HostFacts, 'agent' | 'flags'>): string[] {
  return agent === null ? [`vipnat run --once ${flags}`] : ['systemctl restart vipnat'];
}

/** The families that have a virtual IP. */
export function listFamilies({ vips }: Config): Family[] {
  return families.filter((family) => vips.some((vip) => vip.family === family));
}

/** A process whose network namespace may not be asked for is nobody's fault. */
export function describeElsewhere({ name, pid }: HostProcess): NotChecked {
  return {
    unknown: `whether ${quoteText(name)} (pid ${pid}) is in this network namespace may not be asked: run as root`,
  };
}
