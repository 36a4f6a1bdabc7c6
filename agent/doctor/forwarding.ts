import { families } from '../../lib/address/address.ts';
import { isInSubnet } from '../keepalived/interface.ts';
import { dropsForwarded } from '../../lib/netfilter/iptables/forward.ts';
import { quoteWords } from '../../lib/shell-words.ts';
import { findForeignDrops } from '../foreign-drops.ts';
import { type Check } from './check.ts';
import { given } from './fact.ts';
import { type HostFacts, nameReversePathFilter } from './host-facts.ts';
import { converge } from './remedies.ts';

/** Whether what is balanced to another node gets there, and back. */
export const forwardingChecks: readonly Check[] = [
  { code: 'forwarding-off', find: findClosedSwitch },
  { code: 'forward-dropped', find: findDropPolicy },
  { code: 'forward-dropped-elsewhere', find: findForeignDrop },
  { code: 'rp-filter-strict', find: findStrictFilter },
];

function findClosedSwitch({ assessment }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ missingSwitches }) =>
    missingSwitches.map(({ name, isOurs }) => ({
      level: 'fail',
      title: `${name} is 0`,
      why: `Connections to apiservers on other nodes die here. ${isOurs ? 'A running agent switches it on.' : 'With --sysctls check nobody else switches it on.'}`,
      remedy: [`sysctl -w ${name}=1`],
    })),
  );
}

/** Our own rule lets it pass: only where that is missing anything is lost. */
function findDropPolicy({ assessment, agent, flags }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation, plan, decisions }) =>
    families
      .filter((family) => decisions.some(({ vip, way }) => vip.family === family && way !== 'passthrough'))
      .filter((family) =>
        plan.tables.some((table) => {
          const ruleset = observation.rulesets.find(
            (seen) => seen.family === family && seen.backend === table.backend,
          );
          const isLacking =
            table.table === 'filter' && table.drift.some(({ kind }) => kind.startsWith('missing'));
          return table.family === family && isLacking && ruleset !== undefined && dropsForwarded(ruleset);
        }),
      )
      .map((family) => ({
        level: 'fail',
        title: `${family === 'ipv6' ? 'ip6tables' : 'iptables'} drops what is forwarded, and no rule of vipnat's lets pass what is balanced`,
        why: 'Connections to apiservers on other nodes hang. Docker and many firewalls set this policy.',
        remedy: converge({ agent, flags }),
      })),
  );
}

function findForeignDrop({ assessment, forwardChains }: HostFacts): ReturnType<Check['find']> {
  return given([assessment, forwardChains], (assessed, chains) =>
    findForeignDrops(chains, assessed).map(({ table, name }) => ({
      level: 'fail',
      title: `chain ${name} of nft table ${table} drops what is forwarded`,
      why: 'Connections to apiservers on other nodes hang. Only that table can let them pass: tell its owner (firewalld, …) as well, or the rule goes with its next reload.',
      remedy: [
        quoteWords(['nft', 'insert', 'rule', ...table.split(' '), name, 'ct', 'status', 'dnat', 'accept']),
      ],
    })),
  );
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
  if (devices.length < 2) return [];
  return strict.map((device) => ({
    level: 'warn',
    title: `${device} drops packets whose way back is another interface (rp_filter is 1)`,
    why: `This host is in ${devices.length} networks (${devices.join(', ')}): clients that come in by ${device} and are reached by another one get no answer.`,
    remedy: [`sysctl -w ${nameReversePathFilter('all')}=2`],
  }));
}
