import { type Drift, isOutdated } from '../../../lib/netfilter/rules/drift.ts';
import { isOwnChain } from '../../../lib/netfilter/iptables/identity.ts';
import { type Check } from '../facts/check.ts';
import { given, lookAtHost } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';
import { converge, convergeOrRemove, restartAgent } from '../remedies/remedies.ts';
import { describeTable, type Plan } from '../../../lib/netfilter/plan/table-plan.ts';
import type { HostObservation } from '../../../agent/main.ts';

/** Whether vipnat's own part is as it should be. */
export const ruleChecks: readonly Check[] = [
  {
    code: 'agent-not-running',
    levels: ['warn'],
    meaning: 'No agent runs on this node. No program repairs the rules.',
    find: findNoAgent,
  },
  {
    code: 'agent-other-version',
    levels: ['warn'],
    meaning: 'The agent has another version than this command.',
    find: findOtherVersion,
  },
  {
    code: 'rules-differ',
    levels: ['fail'],
    meaning: "vipnat's rules differ from the wanted rules.",
    find: findDifferences,
  },
  {
    code: 'stale-rules',
    levels: ['warn'],
    meaning: 'Rules of an earlier version or configuration are left.',
    find: findLeftovers,
  },
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
          ? 'vipnat’s rules are here and keep working. But no agent repairs them, or stops using an apiserver that dies.'
          : 'If the VIP comes to this node, it is not balanced.',
        remedy: units.has('vipnat')
          ? ['systemctl enable --now vipnat', '# or as a pod: docs/install.md']
          : [
              '# vipnat is not installed as a service here. docs/install.md: as a DaemonSet, a static pod or a service',
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
        title: `the agent has version ${agent.version}, and this command has version ${version}`,
        why: 'This report compares with the rules of this version. The agent’s version may write other rules.',
        remedy: restartAgent({ units }),
      },
    ];
  });
}

function findDifferences({ assessment, agent, flags, units }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation, plan }) => {
    if (agent === null && !hasOwnRules(observation)) {
      return { unknown: 'vipnat is not installed yet: no agent runs, and no rule of vipnat is here' };
    }
    return lookAtHost(() => {
      const drift = listDrift(plan, (one) => !isOutdated(one));
      if (drift.length === 0) return [];
      return [
        {
          level: 'fail',
          title: `vipnat's rules differ from the wanted rules: ${describe(drift)}`,
          why:
            agent === null
              ? 'The VIP may not be balanced, and no agent runs here that could repair the rules.'
              : 'The agent has not repaired them yet. Run vipnat doctor again in a second. If they still differ, the agent’s log names what changes them.',
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
          why: 'These rules still match connections: to a VIP that no --vip names, or to apiservers that are gone.',
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
export function hasOwnRules({ rulesets, nftRulesets }: HostObservation): boolean {
  return (
    rulesets.some(({ tables }) => [...tables.values()].some((table) => [...table.keys()].some(isOwnChain))) ||
    nftRulesets.some(({ table }) => table !== null)
  );
}
