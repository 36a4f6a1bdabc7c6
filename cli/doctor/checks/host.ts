import {
  type Checks,
  noVip,
  type HostFacts,
  given,
  byReading,
  checkEach,
  type NotChecked,
  type Finding,
  checkHost,
  sysctlNames,
} from '../facts.ts';
import { listFamilies, converge, install } from '../remedies.ts';
import { forwardingSwitch, nameReversePathFilter } from '../../../lib/kernel/forwarding.ts';
import type { HostReading } from '../../../agent/main.ts';
import { type Family, isInSubnet } from '../../../lib/net.ts';
import { isBalanced } from '../../../config/options.ts';
import { quoteText } from '../../../lib/text.ts';
import { dropsForwarded } from '../../../lib/iptables/diff.ts';
import {
  findForeignDrops,
  findDropRules,
  findInputDrops,
  findUntrackedPackets,
  formatAccept,
  type UntrackedPackets,
} from '../../foreign-rules.ts';
import { type ForwardChain, describeUnread, toolName } from '../../../lib/kernel/port.ts';
import { packageOf } from '../../../lib/kernel/tools.ts';

/** Whether what is balanced to another node gets there and back, and connection tracking sees it. */
export const forwardingChecks: Checks = {
  'forwarding-off': {
    levels: ['fail'],
    meaning: 'IP forwarding is off for a family that has a VIP.',
    find: byReading(({ observation, missingSwitches }, { config }) =>
      checkEach(listFamilies(config.vips), noVip, (family) => {
        if (observation.forwarding[family] === null)
          return { unknown: `${forwardingSwitch(family)} cannot be read` };
        const missing = missingSwitches.filter((one) => one.family === family);
        return missing.map(({ name, command, isOwn }) => ({
          title: `IP forwarding is off (${name} is 0)`,
          why: `The kernel drops connections to apiservers on other nodes. ${isOwn ? 'A running agent switches IP forwarding on.' : 'With --sysctls check, the agent leaves it off.'}`,
          remedy: [command],
        }));
      }),
    ),
  },
  'forward-dropped': {
    levels: ['fail'],
    meaning: "iptables drops forwarded packets, and vipnat's rule that accepts them is missing.",
    /** vipnat's own rule lets it pass: only where that rule is missing anything is lost. */
    find: byReading((assessed, facts) =>
      checkEach(listFamilies(facts.config.vips), noVip, (family) => {
        const dropping = assessed.observation.rulesets.filter(
          (seen) => seen.family === family && dropsForwarded(seen),
        );
        if (dropping.length === 0) return null;
        const isLacking = assessed.plan.tables.some(
          ({ family: own, dialect, table, drift }) =>
            own === family &&
            table === 'filter' &&
            dropping.some((seen) => seen.dialect === dialect) &&
            drift.some(({ kind }) => kind.startsWith('missing')),
        );
        if (!isLacking) return findDeclined(assessed, family);
        return {
          title: `${family === 'ipv6' ? 'ip6tables' : 'iptables'} drops forwarded packets, and the rule by which vipnat accepts balanced connections is missing`,
          why: 'Connections to apiservers on other nodes hang. Docker and many firewalls set this policy.',
          remedy: converge(facts),
        };
      }),
    ),
  },
  'forward-dropped-elsewhere': {
    levels: ['fail'],
    meaning: 'A foreign chain in nftables drops forwarded packets. No rule of vipnat can overrule it.',
    find: ({ config, assessment, forwardChains }) =>
      given([assessment, forwardChains], (assessed, chains) => {
        const dropping = chains.filter(({ isDropping }) => isDropping);
        return checkEach(dropping, { notHere: 'no chain drops forwarded packets' }, (chain) => {
          if (findForeignDrops([chain], assessed).length > 0) return describeForeignDrop(chain);
          const declined = listFamilies(config.vips).map((family) => findDeclined(assessed, family));
          return declined.find((one) => one !== null) ?? null;
        });
      }),
  },
  'rp-filter-strict': {
    levels: ['warn'],
    meaning: "Reverse path filtering is strict on the VIP's interface, and the host is in several networks.",
    /**
     * Strict is 1 (RFC 3704), and the greater of the interface's value and that for all counts, so 2 for all is loose
     * everywhere. Source: Documentation/networking/ip-sysctl.rst of Linux. With one network there is only one return path.
     */
    find: ({ config, interfaces, sysctls }) => {
      const value = (device: string) => Number(sysctls.get(nameReversePathFilter(device)) ?? 0);
      const vips = config.vips.filter(({ family }) => family === 'ipv4');
      const isVip = (address: string) => vips.some((vip) => vip.address === address);
      const own = interfaces.filter(({ address, family }) => family === 'ipv4' && !isVip(address));
      const devices = [...new Set(own.map(({ device }) => device))];
      const isStrict = (device: string) =>
        Math.max(value('all'), value(device)) === 1 &&
        own.some((local) => local.device === device && vips.some((vip) => isInSubnet(vip.address, local)));
      if (vips.length === 0) return { notHere: 'no virtual IP is IPv4' };
      if (devices.length < 2) return { notHere: 'this host is in one network' };
      return checkEach(devices, noVip, (device) => {
        const names = ['all', device].map(nameReversePathFilter);
        if (!names.some((name) => sysctls.has(name))) return { unknown: `${names[1] ?? ''} cannot be read` };
        if (!isStrict(device)) return null;
        return {
          title: `${device} drops packets whose return path uses another interface (rp_filter is 1)`,
          why: `This host is in ${devices.length} networks (${devices.join(', ')}). Clients get no answer if their packets arrive on ${device} and the route back uses another interface.`,
          remedy: [`sysctl -w ${nameReversePathFilter('all')}=2`],
        };
      });
    },
  },
  'packets-not-tracked': {
    levels: ['warn', 'fail'],
    meaning: 'A foreign rule (`NOTRACK`, `notrack`) keeps balanced connections from being tracked, or may.',
    find: ({ assessment, earlyRules }) =>
      given([assessment, earlyRules], (assessed, rules) =>
        checkEach(rules, { notHere: 'no rule comes before connection tracking' }, (one) =>
          findUntrackedPackets([one], assessed).map(describeUntracked),
        ),
      ),
  },
  'dropped-by-rule': {
    levels: ['fail'],
    meaning:
      "A foreign rule or policy (iptables' mangle, or some INPUT) drops connections to the VIP or an apiserver. No rule of vipnat can overrule it.",
    find: ({ assessment, inputRules }) =>
      given([assessment, inputRules], (assessed, rules) =>
        checkEach(
          [...findDropRules(assessed), ...findInputDrops(rules, assessed)],
          { notHere: 'no such rule is here' },
          ({ place, rule, remedy }) => ({
            title: `${place} drops balanced connections: ${quoteText(rule)}`,
            why: 'Connections to the VIP or to an apiserver hang. Change the configuration of its owner too: a reload writes the rule again.',
            remedy: [remedy],
          }),
        ),
      ),
  },
};

/** Why nothing of a family is balanced; null where something is. */
function findDeclined({ decisions }: HostReading, family: Family): NotChecked | null {
  const own = decisions.filter(({ vip }) => vip.family === family);
  const [first] = own;
  if (first === undefined || own.some(isBalanced)) return null;
  return { unknown: `nothing is balanced: ${first.reason}` };
}

function describeForeignDrop({ table, name }: ForwardChain): Finding {
  return {
    title: `chain ${name} of nft table ${table} drops what is forwarded`,
    why: 'Connections to apiservers on other nodes hang. Only a rule in that table can accept them. Add the rule to the configuration of its owner (firewalld, …) too: a reload removes this one.',
    remedy: [formatAccept({ table, name })],
  };
}

/** Whether vipnat can do its work here at all. */
export const toolChecks: Checks = {
  'not-permitted': {
    levels: ['fail'],
    meaning: 'The process has no `CAP_NET_ADMIN` or no `CAP_NET_RAW`.',
    find: ({ rights, flags }) =>
      given([rights], ({ hasNetAdmin, hasNetRaw }) => {
        const lacking = [...(hasNetAdmin ? [] : ['CAP_NET_ADMIN']), ...(hasNetRaw ? [] : ['CAP_NET_RAW'])];
        if (lacking.length === 0) return null;
        return {
          title: `this process has no ${lacking.join(' and no ')}`,
          why: 'vipnat can neither read nor write the firewall. Checks that need the firewall are listed as not checked.',
          remedy: [`sudo vipnat doctor ${flags}`],
        };
      }),
  },
  'no-firewall-tool': {
    levels: ['fail'],
    meaning: 'Neither iptables nor nft is in `PATH`.',
    find: ({ tools, rights }) => {
      if (!lacksFirewallTool(tools)) return null;
      if ('value' in rights && !rights.value.hasNetAdmin)
        return { unknown: "this user's PATH may lack the folder of these tools" };
      return {
        title: 'neither iptables nor nft is in PATH',
        why: 'vipnat cannot write rules without one of these tools.',
        remedy: install('iptables', { tools }),
      };
    },
  },
  'inotifywait-missing': {
    levels: ['warn'],
    meaning: '`inotifywait` is missing, and this host uses iptables-legacy: the agent detects changes late.',
    /** Changes of legacy tables are noticed by their lock; nft counts its own changes. */
    find: byReading(({ observation }, { tools }) => {
      if (observation.dialect.value !== 'legacy') return { notHere: 'legacy tables are not used' };
      if (tools.has('inotifywait')) return null;
      return {
        title: 'inotifywait is not in PATH',
        why: 'The agent cannot watch legacy tables. It finds changes there only at its next periodic sync.',
        remedy: install(packageOf('inotifywait'), { tools }),
      };
    }),
  },
  'host-unreadable': {
    levels: ['fail'],
    meaning: 'vipnat could not read a table or a list of addresses. The finding names it, with the reason.',
    /** All that rests on it says so for itself: here only that it is so, once. */
    find: (facts) => {
      const { assessment } = facts;
      if (!('unknown' in assessment)) return null;
      return {
        title: `vipnat could not read the whole host: ${assessment.unknown}`,
        why: 'vipnat writes no rules before it can read everything.',
        remedy: describeReading(facts),
      };
    },
  },
  'rules-unread': {
    levels: ['warn'],
    meaning: 'vipnat could not read some rules that it does not need. The finding says with what effect.',
    /** What nothing depends on: vipnat works without it. */
    find: byReading(({ observation }) =>
      checkHost([observation], ({ unread, rulesets }) => [
        ...describeUnread(unread).map(({ code, text }): Finding => ({
          title: `vipnat cannot read all rules [${code}]`,
          why: `${text} Everything else works.`,
          remedy: [`# what to do: vipnat help ${code}`],
        })),
        ...rulesets
          .filter(({ hidesPorts }) => hidesPorts)
          .map(({ family, dialect }): Finding => ({
            title: `${toolName(family, dialect)} hides the ports of rules that a newer version wrote`,
            why: `A rule for one port looks like a rule for all. If ${toolName(family, dialect, 'save')} saves such rules and they are restored, they apply to all ports.`,
            remedy: ['# install iptables 1.8.8 or later'],
          })),
      ]),
    ),
  },
  'conntrack-nearly-full': {
    levels: ['warn', 'fail'],
    meaning: 'The connection table is at least 80 % full. From 95 %, it is a failure.',
    find: ({ sysctls }) => {
      const count = Number(sysctls.get(sysctlNames.conntrackCount) ?? NaN);
      const max = Number(sysctls.get(sysctlNames.conntrackMax) ?? NaN);
      if (Number.isNaN(count) || Number.isNaN(max)) return noConntrack;
      // 0 is no limit.
      if (max === 0 || count < warnShare * max) return null;
      return {
        level: count < failShare * max ? 'warn' : 'fail',
        title: `the connection table is ${Math.floor((100 * count) / max)} % full (${count} of ${max})`,
        why: 'If the table is full, the kernel drops new connections, also to the virtual IP.',
        remedy: [`sysctl -w ${sysctlNames.conntrackMax}=${2 * max}`],
      };
    },
  },
  'conntrack-not-loose': {
    levels: ['warn'],
    meaning: '`nf_conntrack_tcp_loose` is 0: connections without an entry hang instead of being reset.',
    /** A connection whose entry was deleted is picked up in its middle only then, and so gets its reset. */
    find: ({ sysctls }) => {
      const loose = sysctls.get(sysctlNames.conntrackLoose);
      if (loose === undefined) return noConntrack;
      if (loose !== '0') return null;
      return {
        title: `${sysctlNames.conntrackLoose} is 0`,
        why: 'If an apiserver dies or the VIP moves, connections hang instead of being reset.',
        remedy: [`sysctl -w ${sysctlNames.conntrackLoose}=1`],
      };
    },
  },
};

/** Whether no program is here that reads or writes rules. */
export function lacksFirewallTool(tools: ReadonlySet<string>): boolean {
  return !tools.has('nft') && [...tools].every((tool) => !tool.includes('tables'));
}

/** If another finding fixes the cause, no longer log is proposed. */
function describeReading({ rights, tools, flags }: HostFacts): string[] {
  if ('value' in rights && !(rights.value.hasNetAdmin && rights.value.hasNetRaw))
    return [`sudo vipnat doctor ${flags}`];
  return lacksFirewallTool(tools)
    ? install('iptables', { tools })
    : [`vipnat plan ${flags} --log-level debug`];
}

/** The kernel drops new connections of a full table; at this share there is time left to do something. */
const warnShare = 0.8;
const failShare = 0.95;
const noConntrack = { unknown: 'nf_conntrack is not loaded, or its sysctls are hidden' };

function describeUntracked({ place, rule, packets, isSure, exemptions }: UntrackedPackets): Finding {
  const [first = '', ...more] = packets;
  const which = more.length === 0 ? first : `${first}, and ${more.length} more`;
  return {
    level: isSure ? 'fail' : 'warn',
    title: `${place} ${isSure ? 'keeps' : 'may keep'} ${which} from being tracked: ${quoteText(rule)}`,
    why: 'The kernel translates only connections that it tracks. Without that, connections to the VIP stay at the VIP holder, or get no answer.',
    remedy: [
      '# better leave these packets out where that rule is made: a reload of its owner removes these lines',
      ...exemptions,
    ],
  };
}
