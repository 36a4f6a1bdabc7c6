import { type Endpoint, formatEndpoint } from '../../../lib/address/endpoint.ts';
import { findInstance } from '../../../lib/keepalived/find.ts';
import { type HostProcess } from '../../../lib/kernel/host/processes.ts';
import { isApiserver } from '../checks/foreign.ts';
import { listServers } from '../checks/kubeconfigs.ts';
import { hasOwnRules } from '../checks/rules.ts';
import { lacksFirewallTool } from '../checks/tools.ts';
import { isKeepalivedHere } from '../facts/held.ts';
import { filePaths, type HostFacts } from '../facts/host-facts.ts';

/** How far this host is: whether an agent has ever run on it; unknown where too little can be read. */
export type Stage = 'before-installation' | 'installed' | 'unknown';

/** By what an agent leaves behind: itself, its rules, what it remembers; or by its static pod, which the kubelet starts. */
export function findStage(facts: HostFacts): Stage {
  const { agent, assessment, files, hasMemory } = facts;
  const manifest = files.get(filePaths.agentManifest);
  const hasManifest = manifest !== undefined && 'value' in manifest && manifest.value !== null;
  const remembers = 'value' in hasMemory && hasMemory.value;
  if (agent !== null || hasManifest || remembers) return 'installed';
  if ('unknown' in assessment) return lacksFirewallTool(facts.tools) ? 'before-installation' : 'unknown';
  return hasOwnRules(assessment.value.observation) ? 'installed' : 'before-installation';
}

/** Whether an apiserver of this host is seen, by its process or by its static pod. */
export function hasApiserver({ processes, files }: HostFacts): boolean {
  const running = 'value' in processes ? processes.value : [];
  return running.some((process) => process.isSurelyHere && isApiserver(process)) || hasFile(files, manifest);
}

/** Whether this host belongs to a cluster and surely runs no apiserver. */
export function isWorker(facts: HostFacts): boolean {
  const unseen = [facts.processes, facts.files.get(manifest) ?? { unknown: '' }];
  return unseen.every((fact) => 'value' in fact) && hasCluster(facts) && !hasApiserver(facts);
}

/** Whether this host belongs to a cluster. A kubelet that waits for `kubeadm init` runs on others too. */
export function hasCluster(facts: HostFacts): boolean {
  const { assessment, files, processes } = facts;
  const isProxied = 'value' in assessment && assessment.value.observation.proxyMode.value !== 'none';
  const running = 'value' in processes ? processes.value : [];
  const isAgent = ({ name, isSurelyHere }: HostProcess) => isSurelyHere && name === 'k3s-agent';
  const hasKubeconfig = [filePaths.kubelet, filePaths.admin].some((path) => hasFile(files, path));
  return isProxied || hasKubeconfig || hasApiserver(facts) || running.some(isAgent);
}

/** Whether keepalived runs here and its configuration has an instance with every virtual IP. */
export function isHeldByKeepalived({ config, keepalived, processes }: HostFacts): boolean {
  const text = 'value' in keepalived ? (keepalived.value.text ?? '') : '';
  const isHere = 'value' in processes && isKeepalivedHere(processes.value);
  return isHere && config.vips.every(({ address }) => findInstance(text, address) !== null);
}

/** Whether something of this host asks for the API at one of the virtual IPs already. */
export function isInUse(vips: readonly Endpoint[], facts: HostFacts): boolean {
  const asked = listServers(facts).map(formatEndpoint);
  return vips.some((vip) => asked.includes(formatEndpoint(vip)));
}

const manifest = filePaths.apiserverManifest;

function hasFile(files: HostFacts['files'], path: string): boolean {
  const text = files.get(path);
  return text !== undefined && 'value' in text && text.value !== null;
}
