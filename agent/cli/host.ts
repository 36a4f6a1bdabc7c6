import { type Kernel } from '../../lib/kernel/port.ts';
import { createKernel } from '../../lib/kernel/kernel.ts';
import { type Assessment } from '../assess.ts';
import { type Config } from '../config/config.ts';
import { askProxyMode } from '../discovery/proxy-mode.ts';
import { look, type LookPorts } from '../look.ts';
import { emptyMemory } from '../memory.ts';

/** The real ports of a command that looks or writes a few times and ends. */
export function createPorts(kernel: Kernel = createKernel({ onProblem: () => undefined })): LookPorts {
  return { kernel, askProxyMode };
}

/** One look at this host by a process without memory. */
export function lookAtHost(config: Config): Promise<Assessment> {
  return look(createPorts(), config, emptyMemory);
}
