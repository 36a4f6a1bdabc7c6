import { serviceChain } from '../../../lib/kube-proxy/kubernetes-service.ts';
import { isOwnChain } from '../../../lib/netfilter/iptables/identity.ts';
import { toolName } from '../../../lib/kernel/tools/tool-name.ts';
import { type Ruleset } from '../../../lib/netfilter/iptables/ruleset.ts';
import { ipvsChecks } from './ipvs.ts';
import { removeRules } from '../remedies/leftover-rules.ts';
import { type Check } from '../facts/check.ts';
import { given, lookAt, lookAtHost, type NotHere } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';
import { converge, describeElsewhere } from '../remedies/remedies.ts';
import { restartProxy } from '../remedies/leftover-rules.ts';
import { findProxies } from '../../../lib/kube-proxy/processes.ts';
import type { HostObservation } from '../../../agent/main.ts';

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
    return lookAtHost(() => {
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
  return lookAtHost(() => {
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
    lookAt(observation.rulesets, noIptables, (ruleset) => {
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
    return lookAt(observation.rulesets, noIptables, (ruleset) => {
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
