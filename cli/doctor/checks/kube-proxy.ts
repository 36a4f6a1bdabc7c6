import {
  type Check,
  type HostFacts,
  given,
  checkHost,
  type NotHere,
  checkEach,
  filePaths,
  type Finding,
  type NotChecked,
  type Fact,
} from '../facts.ts';
import { ipvsChecks } from './ipvs.ts';
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
  parseAddress,
  type Address,
} from '../../../lib/net.ts';
import * as z from 'zod/mini';
import { parse } from 'yaml';

/** Whether kube-proxy does its work, and leaves the VIP alone. */
export const kubeProxyChecks: readonly Check[] = [
  {
    code: 'kube-proxy-down',
    levels: ['warn'],
    meaning: "kube-proxy's rules are here, but kube-proxy does not run.",
    find: findDown,
  },
  {
    code: 'kube-proxy-unhealthy',
    levels: ['fail'],
    meaning: "kube-proxy's health check answers with an error.",
    find: findUnhealthy,
  },
  {
    code: 'kube-proxy-blocked',
    levels: ['fail'],
    meaning: 'A rule that jumps into a chain of kube-proxy prevents all updates of the nat table.',
    find: findBlocked,
  },
  {
    code: 'iptables-backends-mixed',
    levels: ['warn'],
    meaning: "kube-proxy's chains are in both backends of iptables.",
    find: findMixedBackends,
  },
  ...ipvsChecks,
];

const restart = restartProxy;

function findDown({ assessment, kubeProxy, processes }: HostFacts): ReturnType<Check['find']> {
  return given([assessment, processes], ({ observation }, running) => {
    if (observation.proxyMode.value === 'none') return noProxy(observation);
    const candidates = findProxies(running);
    return checkHost(() => {
      if (kubeProxy.status !== null || candidates.some(({ isSurelyHere }) => isSurelyHere)) return [];
      const [first] = candidates;
      if (first !== undefined) return describeElsewhere(first);
      return [
        {
          level: 'warn',
          title: `kube-proxy's rules are here (${observation.proxyMode.seenIn}), but kube-proxy does not run`,
          why: 'Services on this node keep their last endpoints. If another program such as Cilium replaced kube-proxy, do not restart kube-proxy. These rules are left over: give vipnat --endpoints or credentials. The commands restart only a kube-proxy that is installed.',
          remedy: [restart],
        },
      ];
    });
  });
}

/** 503: its last update of rules has failed for two minutes. Source: pkg/proxy/healthcheck, proxyHealthServer. */
function findUnhealthy({ kubeProxy: { status }, assessment }: HostFacts): ReturnType<Check['find']> {
  if (status === null) {
    const isAbsent = 'value' in assessment && assessment.value.observation.proxyMode.value === 'none';
    if (isAbsent) return noProxy(assessment.value.observation);
    return { unknown: 'no program answers at 127.0.0.1:10256/healthz' };
  }
  return checkHost(() => {
    if (status === 200) return [];
    return [
      {
        level: 'fail',
        title: `kube-proxy reports that it is not healthy (${status} on 127.0.0.1:10256)`,
        why: 'kube-proxy cannot write its rules. Services on this node may lead to endpoints that are gone.',
        remedy: ['kubectl -n kube-system logs -l k8s-app=kube-proxy --tail 20', restart],
      },
    ];
  });
}

function noProxy({ proxyMode }: HostObservation): NotHere {
  return { notHere: `kube-proxy does not run here (${proxyMode.seenIn})` };
}

const noIptables = { notHere: 'no table of iptables is here' };

/** Measured with kube-proxy 1.36.3: one foreign jump into a chain that it wants to delete fails its whole update of nat. */
function findBlocked({ assessment, agent, flags, units }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation }) =>
    checkEach(observation.rulesets, noIptables, (ruleset) => {
      const seen = observation.views[ruleset.family].iptables.find(
        ({ dialect }) => dialect === ruleset.dialect,
      );
      const isOver = seen !== undefined && (seen.view.unwanted !== null || !seen.view.isHooked);
      const pinned = listPinners(ruleset);
      if (!isOver || pinned.length === 0) return [];
      return [
        {
          level: 'fail',
          title: `kube-proxy cannot delete ${serviceChain}: ${pinned.join(', ')} jumps there`,
          why: 'kube-proxy’s whole update of the nat table fails. No Service on this node is updated any more.',
          remedy: converge({ agent, assessment, flags, units }),
        },
      ];
    }),
  );
}

/** Chains that are not kube-proxy's, but lead to its chain of the Service. */
function listPinners({ tables }: Ruleset): string[] {
  return [...(tables.get('nat') ?? [])]
    .filter(([chain]) => isOwnChain(chain) || !chain.startsWith('KUBE-'))
    .filter(([, rules]) => rules.some((text) => text.includes(`-j ${serviceChain}`)))
    .map(([chain]) => chain);
}

/** kubernetes#71305: packets meet the rules of both, and each tool shows only its own. */
function findMixedBackends({ assessment }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation }) => {
    const used = observation.dialect.value;
    const hasProxy = ({ tables }: Ruleset) => tables.get('nat')?.has('KUBE-SERVICES') ?? false;
    return checkEach(observation.rulesets, noIptables, (ruleset) => {
      const { dialect, family } = ruleset;
      const others = observation.rulesets.filter(
        (other) => other.family === family && other.dialect === used,
      );
      if (dialect === used || !hasProxy(ruleset) || !others.some(hasProxy)) return [];
      const tool = toolName(family, dialect);
      return [
        {
          level: 'warn',
          title: `kube-proxy's chains are in both backends of iptables; vipnat uses ${used} (${observation.dialect.seenIn})`,
          why: `The kernel applies both. Old rules in ${tool} can send connections to apiservers and pods that are gone.`,
          remedy: removeRules(ruleset, tool),
        },
      ];
    });
  });
}

/** Whether what runs on this node asks the API where it should. */
export const kubeconfigChecks: readonly Check[] = [
  {
    code: 'kubeconfig-at-vip',
    levels: ['warn'],
    meaning:
      'The kubelet, controller manager or scheduler of this node connects to the VIP instead of its own apiserver.',
    find: (facts) => findServers(facts, describeAtVip),
  },
  {
    code: 'kubeconfig-past-vip',
    levels: ['warn'],
    meaning: 'A kubeconfig names another master instead of the VIP.',
    find: (facts) => findServers(facts, describePastVip),
  },
];

/**
 * Who reads a file, and what has to be done for it to be read again. A program that works for this node only asks its own
 * apiserver: so does kubeadm since 1.19 for the first two, and from 1.31 on for the kubelet (ControlPlaneKubeletLocalMode).
 */
const readers = [
  {
    path: filePaths.controllerManager,
    isNodes: true,
    why: 'The controller manager loses its lease when the VIP moves.',
    restart: restartContainer('kube-controller-manager'),
  },
  {
    path: filePaths.scheduler,
    isNodes: true,
    why: 'The scheduler loses its lease when the VIP moves.',
    restart: restartContainer('kube-scheduler'),
  },
  {
    path: filePaths.kubelet,
    isNodes: true,
    why: 'The kubelet has to start this node’s apiserver. Until then it needs another apiserver, which may be older than the kubelet.',
    restart: ['systemctl restart kubelet'],
  },
  { path: filePaths.admin, isNodes: false, why: '', restart: [] },
  { path: filePaths.superAdmin, isNodes: false, why: '', restart: [] },
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

function findServers(
  { config, assessment, files }: HostFacts,
  describe: (asked: Asked) => Finding[],
): ReturnType<Check['find']> {
  return given([assessment, readText(files, filePaths.hosts)], (assessed, hosts) =>
    checkEach(
      readers.filter(({ path }) => !isMissing(readText(files, path))),
      { unknown: "none of kubeadm's kubeconfigs is in /etc/kubernetes" },
      (reader): Finding[] | NotChecked => {
        const text = readText(files, reader.path);
        if ('unknown' in text) return text;
        const server = readServer(text.value ?? '', hosts ?? '');
        if (server !== null) return describe({ reader, server, assessed, vips: config.vips });
        return { unknown: `${reader.path} names no server whose address is known here` };
      },
    ),
  );
}

/** Whom the kubeconfigs of this host ask, as far as their addresses are known here. */
export function listServers({ files }: HostFacts): Endpoint[] {
  const hosts = readText(files, filePaths.hosts);
  return readers.flatMap(({ path }) => {
    const text = readText(files, path);
    const known = 'value' in text ? (text.value ?? '') : '';
    const server = readServer(known, 'value' in hosts ? (hosts.value ?? '') : '');
    return server === null ? [] : [server.endpoint];
  });
}

function describeAtVip({ reader, server, assessed, vips }: Asked): Finding[] {
  const local = findLocal(assessed, server.endpoint);
  if (!reader.isNodes || local === null || !isOneOf(vips, server.endpoint)) return [];
  return [
    {
      level: 'warn',
      title: `${baseName(reader.path)} points at ${formatEndpoint(server.endpoint)}`,
      why: `${reader.why} Point the file at this node.`,
      remedy: redirect(reader, server, local),
    },
  ];
}

/** An apiserver of another node is one that no VIP covers for. */
function describePastVip({ reader, server, assessed, vips }: Asked): Finding[] {
  const { endpoint } = server;
  const isHere = assessed.observation.addresses.some(({ address }) => address === endpoint.address);
  if (isHere || isOneOf(vips, endpoint) || isLoopback(endpoint)) return [];
  const isApiserver = assessed.health.has(formatEndpoint(endpoint));
  const local = reader.isNodes ? findLocal(assessed, endpoint) : null;
  const better = local ?? vips.find(({ family }) => family === endpoint.family);
  if (!isApiserver || better === undefined) return [];
  return [
    {
      level: 'warn',
      title: `${baseName(reader.path)} points at ${formatEndpoint(endpoint)}, not at the VIP`,
      why: 'The file names one other master. If that master fails, programs with this file reach no apiserver.',
      remedy: redirect(reader, server, better),
    },
  ];
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

function isOneOf(endpoints: readonly Endpoint[], endpoint: Endpoint): boolean {
  return endpoints.some((one) => formatEndpoint(one) === formatEndpoint(endpoint));
}

function isLoopback({ address, family }: Endpoint): boolean {
  return classifyAddress({ family, text: address }) === 'loopback';
}

const kubeconfig = z.object({
  clusters: z.array(z.object({ cluster: z.object({ server: z.string() }) })),
});

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

function readText(files: HostFacts['files'], path: string): Fact<string | null> {
  return files.get(path) ?? { unknown: `${path} was not read` };
}

function isMissing(text: Fact<string | null>): boolean {
  return 'value' in text && text.value === null;
}

function parseYaml(text: string): unknown {
  try {
    return parse(text) as unknown;
  } catch {
    return null;
  }
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
