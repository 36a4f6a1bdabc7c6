import { type Drift, isOutdated } from '../../../lib/netfilter/rules/drift.ts';
import { isOwnChain } from '../../../lib/netfilter/iptables/identity.ts';
import { type Observation } from '../../../agent/observe/observe.ts';
import { describeTable, type Plan } from '../../../agent/decide/plan.ts';
import { type Check } from '../facts/check.ts';
import { given, lookAtHost } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';
import { converge, convergeOrRemove, restartAgent } from '../remedies/remedies.ts';

/** Whether vipnat's own part is as it should be. */
export const ruleChecks: readonly Check[] = [
  { code: 'agent-not-running', find: findNoAgent },
  { code: 'agent-other-version', find: findOtherVersion },
  { code: 'rules-differ', find: findDifferences },
  { code: 'stale-rules', find: findLeftovers },
];

function findNoAgent({ agent, assessment, units }: HostFacts): ReturnType<Check['find']> {
  return lookAtHost(() => {
    if (agent !== null) return [];
    const isInstalled = 'value' in assessment && hasOwnRules(assessment.value.observation);
    return [
      {
        level: 'warn',
        title: 'no vipnat agent runs on this node',
        why: isInstalled
          ? 'Its rules are here and work on, but nobody repairs them or takes out an apiserver that dies.'
          : 'Should the VIP come here, it is not balanced.',
        remedy: units.has('vipnat')
          ? ['systemctl enable --now vipnat', '# or as a pod: docs/install.md']
          : [
              '# it is not installed as a service here. docs/install.md: as a DaemonSet, a static pod or a service',
            ],
      },
    ];
  });
}

function findOtherVersion({ agent, version, units }: HostFacts): ReturnType<Check['find']> {
  if (agent === null) return { notHere: 'no agent runs' };
  return lookAtHost(() => {
    if (agent.version === version) return [];
    return [
      {
        level: 'warn',
        title: `the agent is vipnat ${agent.version}, and this is ${version}`,
        why: 'What is reported below is by the rules of this version, which may differ from the agent’s.',
        remedy: restartAgent({ units }),
      },
    ];
  });
}

function findDifferences({ assessment, agent, flags, units }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation, plan }) => {
    if (agent === null && !hasOwnRules(observation)) {
      return { unknown: 'vipnat is not installed yet: no agent runs, and no rule of its is here' };
    }
    return lookAtHost(() => {
      const drift = listDrift(plan, (one) => !isOutdated(one));
      if (drift.length === 0) return [];
      return [
        {
          level: 'fail',
          title: `vipnat's rules are not as they should be: ${describe(drift)}`,
          why:
            agent === null
              ? 'The VIP may not be balanced, and no agent is here to repair that.'
              : 'The agent has not repaired it: see its log for who changes them back, or run vipnat doctor again in a second.',
          remedy: converge({ agent, assessment, flags, units }),
        },
      ];
    });
  });
}

/** I4: whatever any version wrote is recognised, and goes. */
function findLeftovers({ assessment, agent, flags, units }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ plan }) =>
    lookAtHost(() => {
      const drift = listDrift(plan, isOutdated);
      if (drift.length === 0) return [];
      return [
        {
          level: 'warn',
          title: `rules of an earlier version or configuration are left: ${describe(drift)}`,
          why: 'They still catch connections, to a VIP that no --vip names or to apiservers that are gone.',
          remedy: convergeOrRemove({ agent, assessment, flags, units }),
        },
      ];
    }),
  );
}

function listDrift({ tables }: Plan, isMeant: (drift: Drift) => boolean): string[] {
  return tables.flatMap((table) =>
    table.drift.filter(isMeant).map(({ message }) => `${message} (${describeTable(table)})`),
  );
}

function describe([first = '', ...more]: readonly string[]): string {
  return more.length === 0 ? first : `${first}, and ${more.length} more`;
}

/** Whether anything of ours is here, of whatever version. */
export function hasOwnRules({ rulesets, nftRulesets }: Observation): boolean {
  return (
    rulesets.some(({ tables }) => [...tables.values()].some((table) => [...table.keys()].some(isOwnChain))) ||
    nftRulesets.some(({ table }) => table !== null)
  );
}
