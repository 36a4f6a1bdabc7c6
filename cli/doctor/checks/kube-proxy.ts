import {
  type Checks,
  noVip,
  type Verdict,
  type HostFacts,
  given,
  byReading,
  areServicesUsed,
  type NotHere,
  checkEach,
  filePaths,
  findFile,
  isAbsent,
  findValue,
  ipvsModules,
  sysctlNames,
  type Finding,
} from '../facts.ts';
import { restartProxy, describeElsewhere, converge, removeRules } from '../remedies.ts';
import { findProxies, serviceChain } from '../../../lib/kube-proxy/read.ts';
import type { HostObservation, HostReading } from '../../../agent/main.ts';
import { type Ruleset, isOwnChain } from '../../../lib/iptables/rules.ts';
import { toolName } from '../../../lib/kernel/port.ts';
import {
  type Endpoint,
  formatEndpoint,
  parseEndpoint,
  classifyAddress,
  includesEndpoint,
  parseAddress,
  type Address,
} from '../../../lib/net.ts';
import { basename } from 'node:path';
import ipaddr from 'ipaddr.js';
import * as z from 'zod/mini';
import { parse } from 'yaml';

/** Whether kube-proxy does its work, has what its ipvs mode needs, and leaves the VIP alone. */
export const kubeProxyChecks: Checks = {
  'kube-proxy-down': {
    levels: ['warn'],
    meaning: "kube-proxy's rules are here, but kube-proxy does not run.",
    find: ({ assessment, kubeProxy, processes }) =>
      given([assessment, processes], ({ observation }, running) => {
        if (observation.proxyMode.value === 'none') return noProxy(observation);
        const candidates = findProxies(running);
        if (kubeProxy.status !== null || candidates.some(({ isSurelyHere }) => isSurelyHere)) return null;
        const [first] = candidates;
        if (first !== undefined) return describeElsewhere(first);
        return {
          title: `kube-proxy's rules are here (${observation.proxyMode.seenIn}), but kube-proxy does not run`,
          why: 'Services on this node keep their last endpoints. If another program such as Cilium replaced kube-proxy, do not restart kube-proxy. These rules are left over: give vipnat --endpoints or credentials. The commands restart only a kube-proxy that is installed.',
          remedy: [restartProxy],
        };
      }),
  },
  'kube-proxy-unhealthy': {
    levels: ['fail'],
    meaning: "kube-proxy's health check answers with an error.",
    /** 503: its last update of rules has failed for two minutes. Source: pkg/proxy/healthcheck, proxyHealthServer. */
    find: ({ kubeProxy: { status }, assessment }) => {
      if (status === null) {
        const observation = findValue(assessment)?.observation;
        if (observation?.proxyMode.value === 'none') return noProxy(observation);
        return { unknown: 'no program answers at 127.0.0.1:10256/healthz' };
      }
      if (status === 200) return null;
      return {
        title: `kube-proxy reports that it is not healthy (${status} on 127.0.0.1:10256)`,
        why: 'kube-proxy cannot write its rules. Services on this node may lead to endpoints that are gone.',
        remedy: ['kubectl -n kube-system logs -l k8s-app=kube-proxy --tail 20', restartProxy],
      };
    },
  },
  'kube-proxy-blocked': {
    levels: ['fail'],
    meaning: 'A rule that jumps into a chain of kube-proxy prevents all updates of the nat table.',
    /** Measured with kube-proxy 1.36.3: one foreign jump into a chain that it wants to delete fails its whole update of nat. */
    find: byReading(({ observation }, facts) =>
      checkEach(observation.rulesets, noIptables, (ruleset) => {
        const seen = observation.views[ruleset.family].iptables.find(
          ({ dialect }) => dialect === ruleset.dialect,
        );
        const isOver = seen !== undefined && (seen.view.unwanted !== null || !seen.view.isHooked);
        const pinned = listPinners(ruleset);
        if (!isOver || pinned.length === 0) return null;
        return {
          title: `kube-proxy cannot delete ${serviceChain}: ${pinned.join(', ')} jumps there`,
          why: 'kube-proxy’s whole update of the nat table fails. No Service on this node is updated any more.',
          remedy: converge(facts),
        };
      }),
    ),
  },
  'iptables-backends-mixed': {
    levels: ['warn'],
    meaning: "kube-proxy's chains are in both backends of iptables.",
    /** kubernetes#71305: packets meet the rules of both, and each tool shows only its own. */
    find: byReading(({ observation }) => {
      const used = observation.dialect.value;
      const hasProxy = ({ tables }: Ruleset) => tables.get('nat')?.has('KUBE-SERVICES') ?? false;
      return checkEach(observation.rulesets, noIptables, (ruleset) => {
        const { dialect, family } = ruleset;
        const others = observation.rulesets.filter((one) => one.family === family && one.dialect === used);
        if (dialect === used || !hasProxy(ruleset) || !others.some(hasProxy)) return null;
        const tool = toolName(family, dialect);
        return {
          title: `kube-proxy's chains are in both backends of iptables; vipnat uses ${used} (${observation.dialect.seenIn})`,
          why: `The kernel applies both. Old rules in ${tool} can send connections to apiservers and pods that are gone.`,
          remedy: removeRules(ruleset, tool),
        };
      });
    }),
  },
  'ipvs-modules-missing': {
    levels: ['fail'],
    meaning: "kube-proxy's proxy mode is `ipvs`, and the kernel lacks ip_vs, ip_vs_rr or nf_conntrack.",
    /** kube-proxy then ends immediately, or falls back to iptables mode before 1.26. Source: cmd/kube-proxy/app/server_linux.go. */
    find: (facts) => {
      const { assessment, ipvs, modules, processes } = facts;
      return given([assessment, ipvs], ({ observation }) => {
        // By its own command line; its file is not read.
        const isAsked = (findValue(processes) ?? []).some(
          (one) =>
            one.name === 'kube-proxy' && one.isSurelyHere && one.arguments.includes('--proxy-mode=ipvs'),
        );
        if (observation.proxyMode.value !== 'ipvs' && !isAsked) return noIpvs(observation);
        return checkEach(ipvsModules, noIpvs(observation), (name) => {
          const state = isSeen(name, facts) ? 'here' : (modules.get(name) ?? 'unknown');
          // The kernel loads a scheduler by itself when one is asked for.
          if (state === 'here' || (name !== 'ip_vs' && state === 'loadable')) return null;
          if (name !== 'ip_vs' && state === 'unknown')
            return { unknown: `cannot see whether this kernel has the module ${name}` };
          return {
            title: `kube-proxy is configured for proxy mode ipvs, but this kernel has no ${name}`,
            why: 'kube-proxy exits, or falls back to proxy mode iptables. Services on this node may not work.',
            remedy:
              state === 'loadable'
                ? [`modprobe ${name}`, restartProxy]
                : [
                    `# install this kernel's modules (Ubuntu: linux-modules-extra, RHEL: kernel-modules), then: modprobe ${name}`,
                    '# or set mode: iptables in the ConfigMap kube-proxy of kube-system. Then restart kube-proxy:',
                    restartProxy,
                  ],
          };
        });
      });
    },
  },
  'strict-arp-off': {
    levels: ['warn', 'fail'],
    meaning: "kube-proxy's proxy mode is `ipvs`, without strictARP. If Services are used, it is a failure.",
    /** Source: cmd/kube-proxy, ipvs.strictARP; kube-ipvs0 has every Service's address on every node, and ARP tells of them all. */
    find: byReading(({ observation }, { sysctls, services }) => {
      if (observation.proxyMode.value !== 'ipvs') return noIpvs(observation);
      const isUsed = areServicesUsed(services);
      const [ignore, announce] = [sysctls.get(sysctlNames.arpIgnore), sysctls.get(sysctlNames.arpAnnounce)];
      if (ignore === undefined || announce === undefined)
        return { unknown: `${sysctlNames.arpIgnore} cannot be read` };
      if (Number(ignore) >= 1 && Number(announce) >= 2) return null;
      return {
        level: isUsed ? 'fail' : 'warn',
        title: `kube-proxy runs in proxy mode ipvs without strictARP (arp_ignore ${ignore}, arp_announce ${announce})`,
        why: isUsed
          ? describeServiceArp(observation)
          : `${everybodyAnswers} If a Service has the VIP as an external address, every node answers for the VIP.`,
        remedy: [
          `sysctl -w ${sysctlNames.arpIgnore}=1 ${sysctlNames.arpAnnounce}=2`,
          '# permanently: set strictARP: true under ipvs: in the ConfigMap kube-proxy of kube-system',
        ],
      };
    }),
  },
  'ipvs-conntrack-off': {
    levels: ['fail'],
    meaning: '`net.ipv4.vs.conntrack` is 0, and the balancing mode is `cluster-ip`.',
    /** Without it IPVS forgets that vipnat translated: the mode cluster-ip is not possible. kube-proxy sets it when it starts. */
    find: byReading(({ observation, decisions }, { sysctls }) => {
      const value = sysctls.get(sysctlNames.ipvsConntrack);
      if (observation.proxyMode.value !== 'ipvs') return noIpvs(observation);
      if (value === undefined) return { unknown: `${sysctlNames.ipvsConntrack} cannot be read` };
      if (value !== '0' || !decisions.some(({ mode }) => mode === 'cluster-ip')) return null;
      return {
        title: `${sysctlNames.ipvsConntrack} is 0`,
        why: 'Connections through kube-proxy’s virtual server get no answer.',
        remedy: [`sysctl -w ${sysctlNames.ipvsConntrack}=1`],
      };
    }),
  },
  'ipvs-excludes-vip': {
    levels: ['warn'],
    meaning: '`--ipvs-exclude-cidrs` contains the ClusterIP.',
    /** A network that kube-proxy keeps its hands off, with the ClusterIP in it: its virtual servers there are never cleaned up. */
    find: byReading(({ observation, decisions }, { kubeProxy }) => {
      if (observation.proxyMode.value !== 'ipvs') return noIpvs(observation);
      if (kubeProxy.ipvs === null) return { unknown: 'no program answers at 127.0.0.1:10249/configz' };
      const { excludeCidrs } = kubeProxy.ipvs;
      return checkEach(decisions, noVip, ({ clusterIp }) => {
        if (excludeCidrs.length === 0) return null;
        if (clusterIp === null) return { unknown: 'the ClusterIP of default/kubernetes is not known' };
        const cidr = excludeCidrs.find((network) => isIn(clusterIp, network));
        if (cidr === undefined) return null;
        return {
          title: `--ipvs-exclude-cidrs of kube-proxy has ${cidr}, which contains the ClusterIP ${clusterIp}`,
          why: 'kube-proxy never removes virtual servers in that network. The option is meant for virtual servers of other software.',
          remedy: ['kubectl -n kube-system edit configmap kube-proxy', restartProxy],
        };
      });
    }),
  },
};

function noProxy({ proxyMode }: HostObservation): NotHere {
  return { notHere: `kube-proxy does not run here (${proxyMode.seenIn})` };
}

const noIptables = { notHere: 'no table of iptables is here' };

/** What only a kernel that has it shows. */
function isSeen(name: string, { ipvs, sysctls }: HostFacts): boolean {
  if (name === 'nf_conntrack') return sysctls.has(sysctlNames.conntrackMax);
  const table = findValue(ipvs);
  return name === 'ip_vs' ? table !== null : / rr\b/.test(table ?? '');
}

const everybodyAnswers = 'Nodes answer ARP for every address on kube-ipvs0.';

/** kube-proxy has each address of `status.loadBalancer` there, unless its ipMode is Proxy. */
function describeServiceArp({ addresses }: HostObservation): string {
  const dummy = addresses.filter(({ device }) => device === 'kube-ipvs0').length;
  return `${everybodyAnswers} It has ${dummy} here, with the addresses of Services of type LoadBalancer. So each node answers for an address, whichever node holds it.`;
}

function noIpvs({ proxyMode }: HostObservation): NotHere {
  return { notHere: `kube-proxy is not in proxy mode ipvs (${proxyMode.seenIn})` };
}

function isIn(address: string, network: string): boolean {
  try {
    const [parsed, [base, length]] = [ipaddr.parse(address), ipaddr.parseCIDR(network)];
    return parsed.kind() === base.kind() && parsed.match(base, length);
  } catch {
    return false;
  }
}

/** Chains that are not kube-proxy's, but lead to its chain of the Service. */
function listPinners({ tables }: Ruleset): string[] {
  return [...(tables.get('nat') ?? [])]
    .filter(([chain]) => isOwnChain(chain) || !chain.startsWith('KUBE-'))
    .filter(([, rules]) => rules.some((text) => text.includes(`-j ${serviceChain}`)))
    .map(([chain]) => chain);
}

/** Whether what runs on this node asks the API where it should. */
export const kubeconfigChecks: Checks = {
  'kubeconfig-at-vip': {
    levels: ['warn'],
    meaning: "The kubelet or another component connects to the VIP instead of this node's apiserver.",
    find: (facts) => findServers(facts, describeAtVip),
  },
  'kubeconfig-past-vip': {
    levels: ['warn'],
    meaning: 'A kubeconfig names another master instead of the VIP.',
    find: (facts) => findServers(facts, describePastVip),
  },
};

/**
 * Who reads a file, and what has to be done for it to be read again. A program that works for this node only asks its own
 * apiserver: so does kubeadm since 1.19 for the first two, and from 1.31 on for the kubelet (ControlPlaneKubeletLocalMode).
 */
const readers = [
  {
    path: filePaths.controllerManager,
    why: 'The controller manager loses its lease when the VIP moves.',
    restart: restartContainer('kube-controller-manager'),
  },
  {
    path: filePaths.scheduler,
    why: 'The scheduler loses its lease when the VIP moves.',
    restart: restartContainer('kube-scheduler'),
  },
  {
    path: filePaths.kubelet,
    why: 'The kubelet has to start this node’s apiserver. Until then it needs another apiserver, which may be older than the kubelet.',
    restart: ['systemctl restart kubelet'],
  },
  { path: filePaths.admin, why: null, restart: [] },
  { path: filePaths.superAdmin, why: null, restart: [] },
] as const;

type Reader = (typeof readers)[number];

function restartContainer(name: string): readonly string[] {
  return [`crictl stop $(crictl ps --name ${name} -q)`];
}

/** Whom a kubeconfig asks, as written there, and as an address when it is one or /etc/hosts knows the name. */
interface Server {
  readonly url: string;
  readonly endpoint: Endpoint;
}

interface Asked {
  readonly reader: Reader;
  readonly server: Server;
  readonly assessed: HostReading;
  readonly vips: readonly Endpoint[];
}

function findServers(facts: HostFacts, describe: (asked: Asked) => Finding | null): Verdict {
  const { assessment, config } = facts;
  return given([assessment, findFile(facts, filePaths.hosts)], (assessed, hosts) =>
    checkEach(
      readers.filter(({ path }) => !isAbsent(facts, path)),
      { unknown: "none of kubeadm's kubeconfigs is in /etc/kubernetes" },
      (reader) => {
        const text = findFile(facts, reader.path);
        if ('unknown' in text) return text;
        const server = readServer(text.value ?? '', hosts ?? '');
        if (server !== null) return describe({ reader, server, assessed, vips: config.vips });
        return { unknown: `${reader.path} names no server whose address is known here` };
      },
    ),
  );
}

/** Whom the kubeconfigs of this host ask, as far as their addresses are known here. */
export function listServers(facts: HostFacts): Endpoint[] {
  const read = (path: string) => findValue(findFile(facts, path)) ?? '';
  return readers.flatMap(({ path }) => readServer(read(path), read(filePaths.hosts))?.endpoint ?? []);
}

function describeAtVip({ reader, server, assessed, vips }: Asked): Finding | null {
  const local = findLocal(assessed, server.endpoint);
  if (reader.why === null || local === null || !includesEndpoint(vips, server.endpoint)) return null;
  return {
    title: `${basename(reader.path)} points at ${formatEndpoint(server.endpoint)}`,
    why: `${reader.why} Point the file at this node.`,
    remedy: redirect(reader, server, local),
  };
}

/** An apiserver of another node is one that no VIP covers for. */
function describePastVip({ reader, server, assessed, vips }: Asked): Finding | null {
  const { endpoint } = server;
  const isHere = assessed.observation.addresses.some(({ address }) => address === endpoint.address);
  const scope = classifyAddress({ family: endpoint.family, text: endpoint.address });
  if (isHere || includesEndpoint(vips, endpoint) || scope === 'loopback') return null;
  const isApiserver = assessed.health.has(formatEndpoint(endpoint));
  const local = reader.why === null ? null : findLocal(assessed, endpoint);
  const better = local ?? vips.find(({ family }) => family === endpoint.family);
  if (!isApiserver || better === undefined) return null;
  return {
    title: `${basename(reader.path)} points at ${formatEndpoint(endpoint)}, not at the VIP`,
    why: 'The file names one other master. If that master fails, programs with this file reach no apiserver.',
    remedy: redirect(reader, server, better),
  };
}

function redirect({ path, restart }: Reader, { url }: Server, to: Endpoint): string[] {
  return [`sed -i 's#${url}#https://${formatEndpoint(to)}#' ${path}`, ...restart];
}

/** This node's own apiserver, of the same family. */
function findLocal({ health, observation }: HostReading, { family }: Endpoint): Endpoint | null {
  const all = [...health.keys()].map((text) => parseEndpoint(text)).filter((one) => one !== null);
  const own = (one: Endpoint) => observation.addresses.some(({ address }) => address === one.address);
  return all.find((one) => one.family === family && own(one)) ?? null;
}

const kubeconfig = z.object({ clusters: z.array(z.object({ cluster: z.object({ server: z.string() }) })) });

/** The first cluster's server, as those files have one only. A URL that a shell could misread is left alone. */
function readServer(text: string, hosts: string): Server | null {
  const url = kubeconfig.safeParse(parseYaml(text)).data?.clusters[0]?.cluster.server ?? '';
  const match = /^https:\/\/(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+))(?::(\d+))?\/?$/.exec(url);
  const [, ipv6 = '', host = ipv6, port = '443'] = match ?? [];
  const address = parseAddress(host) ?? resolve(host, hosts);
  if (address === null) return null;
  return { url, endpoint: { family: address.family, address: address.text, port: Number(port) } };
}

/** By /etc/hosts, where installers put the VIP's name. */
function resolve(name: string, hosts: string): Address | null {
  const lines = hosts.split('\n').map((line) => line.replace(/#.*/, '').trim().split(/\s+/));
  const [address = ''] = lines.find(([, ...names]) => names.includes(name)) ?? [];
  return parseAddress(address);
}

function parseYaml(text: string): unknown {
  try {
    return parse(text) as unknown;
  } catch {
    return null;
  }
}
