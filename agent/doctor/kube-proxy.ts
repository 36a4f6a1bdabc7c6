import ipaddr from 'ipaddr.js';
import { serviceChain } from '../../lib/naming/kubernetes-service.ts';
import { isOwnChain } from '../../lib/netfilter/iptables/identity.ts';
import { type Ruleset } from '../../lib/netfilter/iptables/ruleset.ts';
import { type Observation } from '../observe.ts';
import { type Check } from './check.ts';
import { given, lookAt, lookAtHost, type NotHere } from './fact.ts';
import { type HostFacts, sysctlNames } from './host-facts.ts';
import { converge, describeElsewhere } from './remedies.ts';

/** Whether kube-proxy does its work, and leaves the VIP alone. */
export const kubeProxyChecks: readonly Check[] = [
  { code: 'kube-proxy-down', find: findDown },
  { code: 'kube-proxy-unhealthy', find: findUnhealthy },
  { code: 'kube-proxy-blocked', find: findBlocked },
  { code: 'iptables-backends-mixed', find: findMixedBackends },
  { code: 'strict-arp-off', find: findLooseArp },
  { code: 'ipvs-conntrack-off', find: findIpvsWithoutConntrack },
  { code: 'ipvs-excludes-vip', find: findExcluded },
];

const restart =
  'kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName="$(hostname)"';

function findDown({ assessment, kubeProxy, processes }: HostFacts): ReturnType<Check['find']> {
  return given([assessment, processes], ({ observation }, running) => {
    if (observation.proxyMode.value === 'none') return noProxy(observation);
    const candidates = running.filter(({ name }) =>
      ['kube-proxy', 'hyperkube', 'kubelite', 'k3s-server'].includes(name),
    );
    return lookAtHost(() => {
      if (kubeProxy.status !== null || candidates.some(({ isSurelyHere }) => isSurelyHere)) return [];
      const [first] = candidates;
      if (first !== undefined) return describeElsewhere(first);
      return [
        {
          level: 'warn',
          title: `kube-proxy's rules are here (${observation.proxyMode.seenIn}), and it does not run`,
          why: 'Services of this node stay as they were. vipnat goes past it when its apiservers are no longer the usable ones.',
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
    return { unknown: 'nobody answers at 127.0.0.1:10256/healthz' };
  }
  return lookAtHost(() => {
    if (status === 200) return [];
    return [
      {
        level: 'fail',
        title: `kube-proxy says that it is not healthy (${status} on 127.0.0.1:10256)`,
        why: 'It has not got its rules into the kernel for a while: Services of this node go to what is gone.',
        remedy: ['kubectl -n kube-system logs -l k8s-app=kube-proxy --tail 20', restart],
      },
    ];
  });
}

function noProxy({ proxyMode }: Observation): NotHere {
  return { notHere: `kube-proxy is not here (${proxyMode.seenIn})` };
}

const noIptables = { notHere: 'no table of iptables is here' };

/** Measured with kube-proxy 1.36.3: one foreign jump into a chain that it wants to delete fails its whole update of nat. */
function findBlocked({ assessment, agent, flags }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation }) =>
    lookAt(observation.rulesets, noIptables, (ruleset) => {
      const seen = observation.views[ruleset.family].iptables.find(
        ({ backend }) => backend === ruleset.backend,
      );
      const isOver = seen !== undefined && (seen.view.unwanted !== null || !seen.view.isHooked);
      const pinned = listPinners(ruleset);
      if (!isOver || pinned.length === 0) return [];
      return [
        {
          level: 'fail',
          title: `kube-proxy cannot delete ${serviceChain}: ${pinned.join(', ')} jumps there`,
          why: 'Its whole update of the nat table fails for that, and all Services of this node freeze.',
          remedy: converge({ agent, flags }),
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
    const used = observation.backend.value;
    const hasProxy = ({ tables }: Ruleset) => tables.get('nat')?.has('KUBE-SERVICES') ?? false;
    return lookAt(observation.rulesets, noIptables, (ruleset) => {
      const { backend, family } = ruleset;
      const others = observation.rulesets.filter(
        (other) => other.family === family && other.backend === used,
      );
      if (backend === used || !hasProxy(ruleset) || !others.some(hasProxy)) return [];
      const tool = `${family === 'ipv6' ? 'ip6tables' : 'iptables'}-${backend}`;
      return [
        {
          level: 'warn',
          title: `kube-proxy's chains are in both backends of iptables; vipnat goes by ${used}, as ${observation.backend.seenIn} says`,
          why: `Packets meet both: what is left in ${tool} sends connections to apiservers and pods that are gone.`,
          remedy: [`${tool}-save > /root/${tool}.old`, `${tool}-save | grep -v KUBE- | ${tool}-restore`],
        },
      ];
    });
  });
}

/** Source: cmd/kube-proxy, ipvs.strictARP; kube-ipvs0 has every Service's address on every node, and ARP tells of them all. */
function findLooseArp({ assessment, sysctls }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation }) => {
    if (observation.proxyMode.value !== 'ipvs') return noIpvs(observation);
    const [ignore, announce] = [sysctls.get(sysctlNames.arpIgnore), sysctls.get(sysctlNames.arpAnnounce)];
    if (ignore === undefined || announce === undefined)
      return { unknown: `${sysctlNames.arpIgnore} cannot be read` };
    return lookAtHost(() => {
      if (Number(ignore) >= 1 && Number(announce) >= 2) return [];
      return [
        {
          level: 'warn',
          title: `kube-proxy runs in ipvs mode without strictARP (arp_ignore ${ignore}, arp_announce ${announce})`,
          why: 'Nodes answer ARP for addresses of Services that are bound to kube-ipvs0: for the VIP too, should a Service have it.',
          remedy: [
            `sysctl -w ${sysctlNames.arpIgnore}=1 ${sysctlNames.arpAnnounce}=2`,
            '# and for good: strictARP: true under ipvs: in the ConfigMap kube-proxy of kube-system',
          ],
        },
      ];
    });
  });
}

/** Without it IPVS forgets that we translated: the way cluster-ip is not possible. kube-proxy sets it when it starts. */
function findIpvsWithoutConntrack({ assessment, sysctls }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation, decisions }) => {
    const value = sysctls.get(sysctlNames.ipvsConntrack);
    if (observation.proxyMode.value !== 'ipvs') return noIpvs(observation);
    if (value === undefined) return { unknown: `${sysctlNames.ipvsConntrack} cannot be read` };
    return lookAtHost(() => {
      const isUsed = decisions.some(({ way }) => way === 'cluster-ip');
      if (!isUsed || value !== '0') return [];
      return [
        {
          level: 'fail',
          title: `${sysctlNames.ipvsConntrack} is 0`,
          why: 'Connections that go by kube-proxy’s virtual server get no answer.',
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
    if (kubeProxy.ipvs === null) return { unknown: 'nobody answers at 127.0.0.1:10249/configz' };
    const { excludeCidrs } = kubeProxy.ipvs;
    return lookAt(decisions, { unknown: 'no virtual IP is named' }, ({ clusterIp }) => {
      if (excludeCidrs.length === 0) return [];
      if (clusterIp === null) return { unknown: 'the ClusterIP of default/kubernetes is not known' };
      const cidr = excludeCidrs.find((network) => isIn(clusterIp, network));
      if (cidr === undefined) return [];
      return [
        {
          level: 'warn',
          title: `--ipvs-exclude-cidrs of kube-proxy has ${cidr}, and the ClusterIP ${clusterIp} is in it`,
          why: 'kube-proxy leaves servers of that network as they are when Services go. It is meant for virtual servers of others.',
          remedy: ['kubectl -n kube-system edit configmap kube-proxy', restart],
        },
      ];
    });
  });
}

function noIpvs({ proxyMode }: Observation): NotHere {
  return { notHere: `kube-proxy is not in ipvs mode (${proxyMode.seenIn})` };
}

function isIn(address: string, network: string): boolean {
  try {
    const [parsed, [base, length]] = [ipaddr.parse(address), ipaddr.parseCIDR(network)];
    return parsed.kind() === base.kind() && parsed.match(base, length);
  } catch {
    return false;
  }
}
