import { type Clock, systemClock } from '../../lib/kernel/clock.ts';
import { createKernel } from '../../lib/kernel/kernel.ts';
import { type Kernel } from '../../lib/kernel/port.ts';
import { toProbeSettings } from '../agent.ts';
import { type Assessment } from '../assess.ts';
import { type Config } from '../config/config.ts';
import { recallEndpoints } from '../discovery/endpoint-keeper.ts';
import { createEndpointStore } from '../discovery/endpoint-store.ts';
import { askProxyMode } from '../discovery/proxy-mode.ts';
import { findAuthority } from '../../lib/certificates/authority.ts';
import { probeOnce } from '../health/one-shot.ts';
import { createApiserver } from '../health/probe-connections.ts';
import { askAgentHealth } from '../http/agent-health.ts';
import { look, type LookPorts } from '../look.ts';
import { emptyMemory, type Memory } from '../memory.ts';

/** The kernel of this host, for a command that looks or writes a few times and ends. */
export function createHostKernel(): Kernel {
  return createKernel({ onProblem: () => undefined });
}

/** The real ports of such a command. How apiservers are is the running agent's word, or found out by a probe of each. */
export function createPorts(config: Config): LookPorts {
  const clock: Clock = systemClock;
  const apiserver = createApiserver(clock, () => findAuthority(config.caFile));
  const options = { apiserver, clock, settings: toProbeSettings(config) };
  return {
    kernel: createHostKernel(),
    askProxyMode,
    health: {
      watch: async (watched) => (await askAgentHealth()) ?? (await probeOnce(options, watched)),
    },
  };
}

/** What an agent would begin with that started now. A file that cannot be read is the agent's to complain of. */
export async function recallMemory({ stateDir }: Config): Promise<Memory> {
  const store = createEndpointStore(stateDir);
  return { ...emptyMemory, endpoints: await recallEndpoints(store, () => undefined) };
}

/** One look at this host by a process that has just begun. */
export async function lookAtHost(config: Config): Promise<Assessment> {
  return await look(createPorts(config), config, await recallMemory(config));
}
