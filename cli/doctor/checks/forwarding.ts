import { type Family } from '../../../lib/address/address.ts';
import { forwardingSwitch } from '../../../lib/kernel/host/forwarding.ts';
import { isInSubnet } from '../../../lib/address/subnet.ts';
import { dropsForwarded } from '../../../lib/netfilter/iptables/forward.ts';
import { quoteWords } from '../../../lib/text/shell-words.ts';
import { findForeignDrops } from '../../findings/foreign-drops.ts';
import { type Check } from '../facts/check.ts';
import { type Finding, given, lookAt, type NotChecked } from '../facts/fact.ts';
import { type ForwardChain } from '../../../lib/kernel/port.ts';
import { type HostFacts, nameReversePathFilter } from '../facts/host-facts.ts';
import { converge, listFamilies } from '../remedies/remedies.ts';
import { isBalanced } from '../../../config/way.ts';
import type { HostLook } from '../../../agent/main.ts';

/** Whether what is balanced to another node gets there, and back. */
export const forwardingChecks: readonly Check[] = [
  {
    code: 'forwarding-off',
    levels: ['fail'],
    meaning: 'IP forwarding is off for a family that has a VIP.',
    find: findClosedSwitch,
  },
  {
    code: 'forward-dropped',
    levels: ['fail'],
    meaning:
      "iptables drops forwarded packets, and vipnat's rule that accepts balanced connections is missing.",
    find: findDropPolicy,
  },
  {
    code: 'forward-dropped-elsewhere',
    levels: ['fail'],
    meaning:
      'A chain of other software in nftables drops forwarded packets. No rule of vipnat can overrule it.',
    find: findForeignDrop,
  },
  {
    code: 'rp-filter-strict',
    levels: ['warn'],
    meaning: "Reverse path filtering is strict on the VIP's interface, and the host is in several networks.",
    find: findStrictFilter,
  },
];

function findClosedSwitch({ config, assessment }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation, missingSwitches }) =>
    lookAt(listFamilies(config.vips), noVip, (family) => {
      if (observation.forwarding[family] === null)
        return { unknown: `${forwardingSwitch(family)} cannot be read` };
      const missing = missingSwitches.filter((one) => one.family === family);
      return missing.map(({ name, command, isOurs }) => ({
        level: 'fail',
        title: `IP forwarding is off (${name} is 0)`,
        why: `The kernel drops connections to apiservers on other nodes. ${isOurs ? 'A running agent switches IP forwarding on.' : 'With --sysctls check, the agent leaves it off.'}`,
        remedy: [command],
      }));
    }),
  );
}

const noVip = { unknown: 'no virtual IP is configured' };

/** Why nothing of a family is balanced; null where something is. */
function findDeclined({ decisions }: HostLook, family: Family): NotChecked | null {
  const own = decisions.filter(({ vip }) => vip.family === family);
  const [first] = own;
  if (first === undefined || own.some(isBalanced)) return null;
  return { unknown: `nothing is balanced: ${first.reason}` };
}

/** Our own rule lets it pass: only where that is missing anything is lost. */
function findDropPolicy({ config, assessment, agent, flags, units }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], (assessed) =>
    lookAt(listFamilies(config.vips), noVip, (family): Finding[] | NotChecked => {
      const dropping = assessed.observation.rulesets.filter(
        (seen) => seen.family === family && dropsForwarded(seen),
      );
      if (dropping.length === 0) return [];
      const isLacking = assessed.plan.tables.some(
        ({ family: own, dialect, table, drift }) =>
          own === family &&
          table === 'filter' &&
          dropping.some((seen) => seen.dialect === dialect) &&
          drift.some(({ kind }) => kind.startsWith('missing')),
      );
      if (!isLacking) return findDeclined(assessed, family) ?? [];
      return [
        {
          level: 'fail',
          title: `${family === 'ipv6' ? 'ip6tables' : 'iptables'} drops forwarded packets, and the rule by which vipnat accepts balanced connections is missing`,
          why: 'Connections to apiservers on other nodes hang. Docker and many firewalls set this policy.',
          remedy: converge({ agent, assessment, flags, units }),
        },
      ];
    }),
  );
}

function findForeignDrop({ config, assessment, forwardChains }: HostFacts): ReturnType<Check['find']> {
  return given([assessment, forwardChains], (assessed, chains) => {
    const dropping = chains.filter(({ isDropping }) => isDropping);
    return lookAt(dropping, { notHere: 'no chain drops forwarded packets' }, (chain) => {
      if (findForeignDrops([chain], assessed).length > 0) return [describeForeignDrop(chain)];
      const declined = listFamilies(config.vips).map((family) => findDeclined(assessed, family));
      return declined.find((one) => one !== null) ?? [];
    });
  });
}

function describeForeignDrop({ table, name }: ForwardChain): Finding {
  return {
    level: 'fail',
    title: `chain ${name} of nft table ${table} drops what is forwarded`,
    why: 'Connections to apiservers on other nodes hang. Only a rule in that table can accept them. Add the rule to the configuration of its owner (firewalld, …) too: a reload removes this one.',
    remedy: [
      quoteWords(['nft', 'insert', 'rule', ...table.split(' '), name, 'ct', 'status', 'dnat', 'accept']),
    ],
  };
}

/**
 * Strict is 1 (RFC 3704), and the greater of the interface's value and that for all counts, so 2 for all is loose
 * everywhere. Source: Documentation/networking/ip-sysctl.rst of Linux. With one network there is only one way back.
 */
function findStrictFilter({ config, interfaces, sysctls }: HostFacts): ReturnType<Check['find']> {
  const value = (device: string) => Number(sysctls.get(nameReversePathFilter(device)) ?? 0);
  const vips = config.vips.filter(({ family }) => family === 'ipv4');
  const isVip = (address: string) => vips.some((vip) => vip.address === address);
  const own = interfaces.filter(({ address, family }) => family === 'ipv4' && !isVip(address));
  const devices = [...new Set(own.map(({ device }) => device))];
  const strict = devices.filter(
    (device) =>
      Math.max(value('all'), value(device)) === 1 &&
      own.some((local) => local.device === device && vips.some((vip) => isInSubnet(vip.address, local))),
  );
  if (vips.length === 0) return { notHere: 'no virtual IP is IPv4' };
  if (devices.length < 2) return { notHere: 'this host is in one network' };
  return lookAt(devices, noVip, (device) => {
    const names = ['all', device].map(nameReversePathFilter);
    if (!names.some((name) => sysctls.has(name))) return { unknown: `${names[1] ?? ''} cannot be read` };
    return strict.filter((one) => one === device).map((one) => describeStrict(one, devices));
  });
}

function describeStrict(device: string, devices: readonly string[]): Finding {
  return {
    level: 'warn',
    title: `${device} drops packets whose return path uses another interface (rp_filter is 1)`,
    why: `This host is in ${devices.length} networks (${devices.join(', ')}). Clients get no answer if their packets arrive on ${device} and the route back uses another interface.`,
    remedy: [`sysctl -w ${nameReversePathFilter('all')}=2`],
  };
}
