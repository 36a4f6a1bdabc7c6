import { packageOf } from '../../../lib/kernel/tools/tool-errors.ts';
import { type Check } from '../facts/check.ts';
import { type Finding, given, lookAtHost } from '../facts/fact.ts';
import { type HostFacts, sysctlNames } from '../facts/host-facts.ts';
import { install } from '../remedies/remedies.ts';
import { describeUnread } from '../../../lib/kernel/real/unread.ts';

/** Whether vipnat can do its work here at all. */
export const toolChecks: readonly Check[] = [
  {
    code: 'not-permitted',
    levels: ['fail'],
    meaning: 'The process has no `CAP_NET_ADMIN` or no `CAP_NET_RAW`.',
    find: findLackingRights,
  },
  {
    code: 'no-firewall-tool',
    levels: ['fail'],
    meaning: 'Neither iptables nor nft is in `PATH`.',
    find: findMissingFirewallTool,
  },
  {
    code: 'inotifywait-missing',
    levels: ['warn'],
    meaning:
      '`inotifywait` is not in `PATH`, and this host uses iptables-legacy. The agent detects changes late.',
    find: findMissingInotifywait,
  },
  {
    code: 'host-unreadable',
    levels: ['fail'],
    meaning: 'vipnat could not read a table or a list of addresses. The finding names it, with the reason.',
    find: findUnreadableHost,
  },
  {
    code: 'rules-unread',
    levels: ['warn'],
    meaning:
      'vipnat could not read some rules that it does not need. The finding names them, with the reason and the effect.',
    find: findUnreadRules,
  },
  {
    code: 'conntrack-nearly-full',
    levels: ['warn', 'fail'],
    meaning: 'The connection table is at least 80 % full. From 95 %, it is a failure.',
    find: findFullConntrack,
  },
  {
    code: 'conntrack-not-loose',
    levels: ['warn'],
    meaning:
      '`nf_conntrack_tcp_loose` is 0. Connections without an entry in the connection table hang instead of being reset.',
    find: findStrictConntrack,
  },
];

function findLackingRights({ rights, flags }: HostFacts): ReturnType<Check['find']> {
  return given([rights], ({ hasNetAdmin, hasNetRaw }) =>
    lookAtHost(() => {
      const lacking = [...(hasNetAdmin ? [] : ['CAP_NET_ADMIN']), ...(hasNetRaw ? [] : ['CAP_NET_RAW'])];
      if (lacking.length === 0) return [];
      return [
        {
          level: 'fail',
          title: `this process has no ${lacking.join(' and no ')}`,
          why: 'vipnat can neither read nor write the firewall. Checks that need the firewall are listed as not checked.',
          remedy: [`sudo vipnat doctor ${flags}`],
        },
      ];
    }),
  );
}

/** Whether no program is here that reads or writes rules. */
export function lacksFirewallTool(tools: ReadonlySet<string>): boolean {
  return !tools.has('nft') && [...tools].every((tool) => !tool.includes('tables'));
}

function findMissingFirewallTool({ tools }: HostFacts): ReturnType<Check['find']> {
  return lookAtHost(() => {
    if (!lacksFirewallTool(tools)) return [];
    return [
      {
        level: 'fail',
        title: 'neither iptables nor nft is in PATH',
        why: 'vipnat cannot write rules without one of these tools.',
        remedy: install('iptables', { tools }),
      },
    ];
  });
}

/** What changes legacy tables is heard of by their lock; nft counts its own changes. */
function findMissingInotifywait({ tools, assessment }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation }) =>
    observation.dialect.value === 'legacy'
      ? lookAtHost(() =>
          findMissing(
            tools,
            'inotifywait',
            'The agent cannot watch legacy tables. It finds changes there only at its next periodic sync.',
          ),
        )
      : { notHere: 'legacy tables are not used' },
  );
}

function findMissing(tools: ReadonlySet<string>, tool: string, why: string): Finding[] {
  if (tools.has(tool)) return [];
  return [
    { level: 'warn', title: `${tool} is not in PATH`, why, remedy: install(packageOf(tool), { tools }) },
  ];
}

/** All that rests on it says so for itself: here only that it is so, once. */
function findUnreadableHost(facts: HostFacts): ReturnType<Check['find']> {
  const { assessment } = facts;
  return lookAtHost(() => {
    if (!('unknown' in assessment)) return [];
    return [
      {
        level: 'fail',
        title: `vipnat could not read the whole host: ${assessment.unknown}`,
        why: 'vipnat writes no rules before it can read everything.',
        remedy: describeReading(facts),
      },
    ];
  });
}

/** What another finding mends already is not looked for by a longer log. */
function describeReading({ rights, tools, flags }: HostFacts): string[] {
  if ('value' in rights && !(rights.value.hasNetAdmin && rights.value.hasNetRaw))
    return [`sudo vipnat doctor ${flags}`];
  return lacksFirewallTool(tools)
    ? install('iptables', { tools })
    : [`vipnat plan ${flags} --log-level debug`];
}

/** What nothing rests on: vipnat goes on without it. */
function findUnreadRules({ assessment }: HostFacts): ReturnType<Check['find']> {
  return lookAtHost(() =>
    given([assessment], ({ observation }) =>
      describeUnread(observation.unread).map(({ code, text }) => ({
        level: 'warn' as const,
        title: `vipnat cannot read all rules [${code}]`,
        why: `${text} Everything else works.`,
        remedy: [`# docs/errors.md says what to do about ${code}`],
      })),
    ),
  );
}

/** The kernel drops new connections of a full table; at this share there is time left to do something. */
const warnShare = 0.8;
const failShare = 0.95;

function findFullConntrack({ sysctls }: HostFacts): ReturnType<Check['find']> {
  const count = Number(sysctls.get(sysctlNames.conntrackCount) ?? NaN);
  const max = Number(sysctls.get(sysctlNames.conntrackMax) ?? NaN);
  if (Number.isNaN(count) || Number.isNaN(max)) return noConntrack;
  return lookAtHost(() => {
    // 0 is no limit.
    if (max === 0 || count < warnShare * max) return [];
    return [
      {
        level: count < failShare * max ? 'warn' : 'fail',
        title: `the connection table is ${Math.floor((100 * count) / max)} % full (${count} of ${max})`,
        why: 'If the table is full, the kernel drops new connections, also to the virtual IP.',
        remedy: [`sysctl -w ${sysctlNames.conntrackMax}=${2 * max}`],
      },
    ];
  });
}

const noConntrack = { unknown: 'nf_conntrack is not loaded, or its sysctls are hidden' };

/** A connection whose entry was deleted is picked up in its middle only then, and so gets its reset. */
function findStrictConntrack({ sysctls }: HostFacts): ReturnType<Check['find']> {
  const loose = sysctls.get(sysctlNames.conntrackLoose);
  if (loose === undefined) return noConntrack;
  return lookAtHost(() => {
    if (loose !== '0') return [];
    return [
      {
        level: 'warn',
        title: `${sysctlNames.conntrackLoose} is 0`,
        why: 'If an apiserver dies or the VIP moves, connections hang instead of being reset.',
        remedy: [`sysctl -w ${sysctlNames.conntrackLoose}=1`],
      },
    ];
  });
}
