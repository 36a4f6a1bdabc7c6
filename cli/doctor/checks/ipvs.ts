import {
  type Check,
  type HostFacts,
  given,
  checkEach,
  ipvsModules,
  sysctlNames,
  checkHost,
  type NotHere,
} from '../facts.ts';
import { restartProxy as restart } from '../remedies.ts';
import type { HostProcess } from '../../../lib/kernel/host.ts';
import { areServicesUsed } from '../services-facts.ts';
import type { HostObservation } from '../../../agent/main.ts';
import ipaddr from 'ipaddr.js';

/** Whether kube-proxy's ipvs mode has what it needs, and leaves the VIP alone. */
export const ipvsChecks: readonly Check[] = [
  {
    code: 'ipvs-modules-missing',
    levels: ['fail'],
    meaning: "kube-proxy's proxy mode is `ipvs`, and the kernel lacks ip_vs, ip_vs_rr or nf_conntrack.",
    find: findMissingModules,
  },
  {
    code: 'strict-arp-off',
    levels: ['warn', 'fail'],
    meaning: "kube-proxy's proxy mode is `ipvs`, without strictARP. If Services are used, it is a failure.",
    find: findLooseArp,
  },
  {
    code: 'ipvs-conntrack-off',
    levels: ['fail'],
    meaning: '`net.ipv4.vs.conntrack` is 0, and the balancing mode is `cluster-ip`.',
    find: findIpvsWithoutConntrack,
  },
  {
    code: 'ipvs-excludes-vip',
    levels: ['warn'],
    meaning: '`--ipvs-exclude-cidrs` contains the ClusterIP.',
    find: findExcluded,
  },
];

/** kube-proxy then ends immediately, or falls back to iptables mode before 1.26. Source: cmd/kube-proxy/app/server_linux.go. */
function findMissingModules(facts: HostFacts): ReturnType<Check['find']> {
  const { assessment, ipvs, modules, processes } = facts;
  return given([assessment, ipvs], ({ observation }) => {
    const running = 'value' in processes ? processes.value : [];
    const isAsked = running.some(isConfiguredIpvs);
    if (observation.proxyMode.value !== 'ipvs' && !isAsked) return noIpvs(observation);
    return checkEach(ipvsModules, noIpvs(observation), (name) => {
      const state = isSeen(name, facts) ? 'here' : (modules.get(name) ?? 'unknown');
      // The kernel loads a scheduler by itself when one is asked for.
      if (state === 'here' || (name !== 'ip_vs' && state === 'loadable')) return [];
      if (name !== 'ip_vs' && state === 'unknown')
        return { unknown: `cannot see whether this kernel has the module ${name}` };
      return [
        {
          level: 'fail',
          title: `kube-proxy is configured for proxy mode ipvs, but this kernel has no ${name}`,
          why: 'kube-proxy exits, or falls back to proxy mode iptables. Services on this node may not work.',
          remedy:
            state === 'loadable'
              ? [`modprobe ${name}`, restart]
              : [
                  `# install this kernel's modules (Ubuntu: linux-modules-extra, RHEL: kernel-modules), then: modprobe ${name}`,
                  '# or set mode: iptables in the ConfigMap kube-proxy of kube-system. Then restart kube-proxy:',
                  restart,
                ],
        },
      ];
    });
  });
}

/** By its own command line; its file is not read. */
function isConfiguredIpvs({ name, arguments: words, isSurelyHere }: HostProcess): boolean {
  return name === 'kube-proxy' && isSurelyHere && words.includes('--proxy-mode=ipvs');
}

/** What only a kernel that has it shows. */
function isSeen(name: string, { ipvs, sysctls }: HostFacts): boolean {
  if (name === 'nf_conntrack') return sysctls.has(sysctlNames.conntrackMax);
  const table = 'value' in ipvs ? ipvs.value : null;
  return name === 'ip_vs' ? table !== null : / rr\b/.test(table ?? '');
}

/** Source: cmd/kube-proxy, ipvs.strictARP; kube-ipvs0 has every Service's address on every node, and ARP tells of them all. */
function findLooseArp({ assessment, sysctls, services }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation }) => {
    if (observation.proxyMode.value !== 'ipvs') return noIpvs(observation);
    const isUsed = areServicesUsed(services);
    const [ignore, announce] = [sysctls.get(sysctlNames.arpIgnore), sysctls.get(sysctlNames.arpAnnounce)];
    if (ignore === undefined || announce === undefined)
      return { unknown: `${sysctlNames.arpIgnore} cannot be read` };
    return checkHost(() => {
      if (Number(ignore) >= 1 && Number(announce) >= 2) return [];
      return [
        {
          level: isUsed ? 'fail' : 'warn',
          title: `kube-proxy runs in proxy mode ipvs without strictARP (arp_ignore ${ignore}, arp_announce ${announce})`,
          why: isUsed
            ? describeServiceArp(observation)
            : `${everybodyAnswers} If a Service has the VIP as an external address, every node answers for the VIP.`,
          remedy: [
            `sysctl -w ${sysctlNames.arpIgnore}=1 ${sysctlNames.arpAnnounce}=2`,
            '# permanently: set strictARP: true under ipvs: in the ConfigMap kube-proxy of kube-system',
          ],
        },
      ];
    });
  });
}

const everybodyAnswers = 'Nodes answer ARP for every address on kube-ipvs0.';

/** kube-proxy has each address of `status.loadBalancer` there, unless its ipMode is Proxy. */
function describeServiceArp({ addresses }: HostObservation): string {
  const dummy = addresses.filter(({ device }) => device === 'kube-ipvs0').length;
  return `${everybodyAnswers} It has ${dummy} here, with the addresses of Services of type LoadBalancer. So each node answers for an address, whichever node holds it.`;
}

/** Without it IPVS forgets that vipnat translated: the mode cluster-ip is not possible. kube-proxy sets it when it starts. */
function findIpvsWithoutConntrack({ assessment, sysctls }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation, decisions }) => {
    const value = sysctls.get(sysctlNames.ipvsConntrack);
    if (observation.proxyMode.value !== 'ipvs') return noIpvs(observation);
    if (value === undefined) return { unknown: `${sysctlNames.ipvsConntrack} cannot be read` };
    return checkHost(() => {
      const isUsed = decisions.some(({ mode }) => mode === 'cluster-ip');
      if (!isUsed || value !== '0') return [];
      return [
        {
          level: 'fail',
          title: `${sysctlNames.ipvsConntrack} is 0`,
          why: 'Connections through kube-proxy’s virtual server get no answer.',
          remedy: [`sysctl -w ${sysctlNames.ipvsConntrack}=1`],
        },
      ];
    });
  });
}

/** A network that kube-proxy keeps its hands off, with the ClusterIP in it: its virtual servers there are never cleaned up. */
function findExcluded({ assessment, kubeProxy }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation, decisions }) => {
    if (observation.proxyMode.value !== 'ipvs') return noIpvs(observation);
    if (kubeProxy.ipvs === null) return { unknown: 'no program answers at 127.0.0.1:10249/configz' };
    const { excludeCidrs } = kubeProxy.ipvs;
    return checkEach(decisions, { unknown: 'no virtual IP is configured' }, ({ clusterIp }) => {
      if (excludeCidrs.length === 0) return [];
      if (clusterIp === null) return { unknown: 'the ClusterIP of default/kubernetes is not known' };
      const cidr = excludeCidrs.find((network) => isIn(clusterIp, network));
      if (cidr === undefined) return [];
      return [
        {
          level: 'warn',
          title: `--ipvs-exclude-cidrs of kube-proxy has ${cidr}, which contains the ClusterIP ${clusterIp}`,
          why: 'kube-proxy never removes virtual servers in that network. The option is meant for virtual servers of other software.',
          remedy: ['kubectl -n kube-system edit configmap kube-proxy', restart],
        },
      ];
    });
  });
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
