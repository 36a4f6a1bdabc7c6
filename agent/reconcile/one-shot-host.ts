import { findRoute } from '../../lib/kubernetes/find-route.ts';
import { type VipnatError } from '../../lib/text/errors.ts';
import { type Clock, systemClock } from '../../lib/control/clock.ts';
import { createKernel } from '../../lib/kernel/real/kernel.ts';
import { type Kernel } from '../../lib/kernel/port.ts';
import { toProbeSettings } from './agent.ts';
import { type Assessment } from '../decide/assess.ts';
import { type Config } from '../../config/config.ts';
import { findAccess } from '../../lib/kubernetes/access.ts';
import { type ClusterApi, noApi } from '../api/cluster-api.ts';
import { ListedApi } from '../api/listed-api.ts';
import { recallApiservers } from '../endpoints/endpoint-persister.ts';
import { createEndpointStore } from '../endpoints/endpoint-store.ts';
import { askProxyMode } from '../observe/ask-proxy-mode.ts';
import { createProxyAbsence } from '../observe/proxy-absence.ts';
import { findAuthority } from '../../lib/files/authority.ts';
import { probeOnce } from '../health/one-shot.ts';
import { type Apiserver } from '../probe/apiserver.ts';
import { createApiserver } from '../probe/probe-connections.ts';
import { createCredentialsReader } from '../probe/probe-credentials.ts';
import { askAgentApi } from '../http/agent-api.ts';
import { askAgentHealth } from '../http/agent-health.ts';
import { everything, observeAndAssess, type LookPorts } from './look.ts';
import { emptyState, type ReconcileState } from '../observe/reconcile-state.ts';

/** The kernel of this host, for a command that looks or writes a few times and ends. */
export function createHostKernel(): Kernel {
  return createKernel({ onProblem: () => undefined });
}

/** Writes a line for a person, with its newline. */
export type Tell = (text: string) => void;

/**
 * The real ports of such a command. How apiservers are, and what the API says, is the running agent's word; without one
 * it is found out by a probe of each, and by a list. An API that does not answer is told to `tell`, once.
 */
export function createPorts(config: Config, tell: Tell): LookPorts {
  const clock: Clock = systemClock;
  const options = { apiserver: createHostApiserver(config), clock, settings: toProbeSettings(config) };
  return {
    kernel: createHostKernel(),
    askProxyMode,
    askProxyAbsence: createProxyAbsence(clock),
    api: createOneTimeApi(config, tell),
    health: {
      watch: async (watched) => (await askAgentHealth()) ?? (await probeOnce(options, watched)),
    },
  };
}

/** The apiservers as such a command probes them. */
function createHostApiserver({ caFile, kubeconfig }: Config): Apiserver {
  return createApiserver({
    clock: systemClock,
    findAuthority: () => findAuthority(caFile),
    readCredentials: createCredentialsReader(findAccess(kubeconfig, process.env), systemClock),
  });
}

/**
 * What an agent would begin with that started now, and what the one that runs holds the API's word against. A file that
 * cannot be read is the agent's to complain of.
 */
export async function recallMemory({ stateDir }: Config): Promise<ReconcileState> {
  const store = createEndpointStore(stateDir);
  const known = await recallApiservers(store, () => undefined);
  return { ...emptyState, ...known, proxyBesideApi: (await askAgentApi())?.proxyBesideApi ?? {} };
}

/** One look at all of this host by a process that has just begun. */
export async function lookAtThisHost(config: Config, tell: Tell): Promise<Assessment> {
  return await observeAndAssess(createPorts(config, tell), config, await recallMemory(config), everything);
}

function createOneTimeApi(config: Config, tell: Tell): ClusterApi {
  const route = findRoute(config);
  const onProblem = ({ code, message }: VipnatError) => {
    tell(`[${code}] ${message}\n`);
  };
  const listed = route === null ? noApi : new ListedApi({ route, clock: systemClock, onProblem });
  return {
    getView: async (known) => {
      const said = await askAgentApi();
      return said === null ? await listed.getView(known) : said.view;
    },
  };
}
