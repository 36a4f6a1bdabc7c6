import { packageOf } from '../../../lib/kernel/tools/tool-errors.ts';
import { describeUnread } from '../../../agent/observe/unread.ts';
import { type Check } from '../facts/check.ts';
import { type Finding, given, lookAtHost } from '../facts/fact.ts';
import { type HostFacts, sysctlNames } from '../facts/host-facts.ts';
import { install } from '../remedies/remedies.ts';

/** Whether vipnat can do its work here at all. */
export const toolChecks: readonly Check[] = [
  { code: 'not-permitted', find: findLackingRights },
  { code: 'no-firewall-tool', find: findMissingFirewallTool },
  { code: 'conntrack-missing', find: findMissingConntrack },
  { code: 'inotifywait-missing', find: findMissingInotifywait },
  { code: 'host-unreadable', find: findUnreadableHost },
  { code: 'rules-unread', find: findUnreadRules },
  { code: 'conntrack-nearly-full', find: findFullConntrack },
  { code: 'conntrack-not-loose', find: findStrictConntrack },
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
          why: 'Without, the firewall can be neither read nor written. What needs it is not checked below.',
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
        why: 'vipnat has nothing to write rules with.',
        remedy: install('iptables', { tools }),
      },
    ];
  });
}

function findMissingConntrack({ tools }: HostFacts): ReturnType<Check['find']> {
  const why = 'Connections to an apiserver that died hang for up to 15 minutes instead of being reset.';
  return lookAtHost(() => findMissing(tools, 'conntrack', why));
}

/** What changes legacy tables is heard of by their lock; nft counts its own changes. */
function findMissingInotifywait({ tools, assessment }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation }) =>
    observation.dialect.value === 'legacy'
      ? lookAtHost(() =>
          findMissing(
            tools,
            'inotifywait',
            'The agent does not hear of changes to legacy tables, and finds them on its next slow look.',
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
        title: `this host could not be read whole: ${assessment.unknown}`,
        why: 'vipnat writes nothing before it has seen everything.',
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
        title: `not all rules can be read [${code}]`,
        why: `${text} All else works on.`,
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
        why: 'When it is full, the kernel drops new connections, to the virtual IP as well.',
        remedy: [`sysctl -w ${sysctlNames.conntrackMax}=${2 * max}`],
      },
    ];
  });
}

const noConntrack = { unknown: 'nf_conntrack is not loaded, or hides its switches' };

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
        why: 'Connections to a dead apiserver, and those that outlive a move of the VIP, hang instead of being reset.',
        remedy: [`sysctl -w ${sysctlNames.conntrackLoose}=1`],
      },
    ];
  });
}
