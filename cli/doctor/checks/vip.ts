import {
  type Checks,
  noVip,
  type HostFacts,
  given,
  byReading,
  findValue,
  checkEach,
  type Finding,
  isHeldElsewhere,
  advertises,
  type LinkHolder,
  findDoubles,
  isKeepalivedHere,
} from '../facts.ts';
import { type Endpoint, isInSubnet, explainUnfit } from '../../../lib/net.ts';
import { findInstance, keepalivedFile } from '../../../lib/keepalived/read.ts';
import { quoteWords } from '../../../lib/text.ts';
import { isKubeVip } from './rules.ts';
import { toolName } from '../../../lib/kernel/port.ts';

/** Whether each virtual IP is somewhere, and only there. */
export const virtualIpChecks: Checks = {
  'vip-nowhere': {
    levels: ['warn', 'fail'],
    meaning: 'No host has the VIP. If a firewall may hide the VIP holder, it is a warning.',
    find: byReading(({ observation }, facts) =>
      checkEach(facts.config.vips, noVip, (vip) => {
        if (observation.addresses.some(({ address }) => address === vip.address)) return null;
        const answer = facts.vipHolderAnswers.get(vip.address);
        if (isHeldElsewhere(vip, facts)) return null;
        if (answer === undefined) return { unknown: `no host was asked for ${vip.address}` };
        if (answer.kind === 'untried')
          return { unknown: `no connection to ${vip.address} could be tried (${answer.code})` };
        return describeNobody(vip, facts);
      }),
    ),
  },
  'vip-unfit': {
    levels: ['fail'],
    meaning: 'The VIP is an address of this host, its gateway, or an address that its network reserves.',
    find: ({ config, interfaces, gateways }) =>
      checkEach(config.vips, noVip, ({ address }) => {
        const why = explainUnfit(address, interfaces, gateways);
        if (why === null) return null;
        return {
          title: `${address} ${why}`,
          why: 'A virtual IP is an additional address. If keepalived holds this one, two hosts have the same address.',
          remedy: ['# choose a free address of this network, and give it as --vip'],
        };
      }),
  },
  'vip-off-network': {
    levels: ['warn'],
    meaning: 'No interface here is in a network with the VIP, and keepalived has no instance with it.',
    /** Hosts without a network in common with it do not ask for it by ARP. Where keepalived's interface was configured, that is intended. */
    find: ({ config, interfaces, keepalived, flags }) => {
      const text = findValue(keepalived)?.text ?? '';
      return checkEach(config.vips, noVip, ({ address, family }) => {
        const around = interfaces.filter((one) => one.family === family);
        const isPlaced = around.some((local) => isInSubnet(address, local));
        if (isPlaced || findInstance(text, address) !== null) return null;
        const networks = around.map((one) => `${one.device} ${one.address}/${one.prefixLength}`).join(', ');
        const [first = { device: 'eth0' }] = around;
        return {
          title: `${address} is in no network of this host (${networks === '' ? `no ${family} address` : networks})`,
          why: 'Neighbours do not ask for the address by ARP. Clients reach it only if a route leads to the VIP holder.',
          remedy: [
            '# if this is a mistake: choose a free address of one of these networks',
            `# if this is intended: vipnat keepalived ${flags} --interface ${quoteWords([first.device])}`,
          ],
        };
      });
    },
  },
  'vip-held-twice': {
    levels: ['fail'],
    meaning: "Two hosts advertise the VIP at the same time. The finding names the other host's address.",
    /** Two that send at the same time do not receive each other's adverts: what is captured here was not through this host's firewall yet. */
    find: (facts) =>
      given([facts.adverts, facts.assessment, facts.processes], (seen, { observation }, running) =>
        checkEach(facts.config.vips, noVip, (vip) => {
          const { address } = vip;
          const own = observation.addresses.find((local) => local.address === address);
          const local = new Set(observation.addresses.map((one) => one.address));
          const others = findDoubles(seen, address, local);
          if (others.length === 0) return null;
          const dialect = observation.dialect.value === 'nftables' ? 'nft' : observation.dialect.value;
          const place = `${address}/${vip.family === 'ipv6' ? 128 : 32}`;
          return {
            title: `${address} is held twice: by ${own === undefined ? '' : 'this node and by '}${others.join(', ')}`,
            why: 'Each client reaches one of the hosts at random. Connections break when the network switches to the other host.',
            remedy:
              own === undefined
                ? others.map((other) => `# on ${other}: vipnat doctor`)
                : isKeepalivedHere(running)
                  ? admit(others, toolName(vip.family, dialect), facts)
                  : [
                      '# no keepalived runs here: another program added the address',
                      quoteWords(['ip', 'addr', 'del', place, 'dev', own.device]),
                    ],
          };
        }),
      ),
  },
  'vip-held-without-vrrp': {
    levels: ['warn', 'fail'],
    meaning: 'A host that sends no VRRP answers for the VIP. If this node has the VIP too, it is a failure.',
    /** Only members of the group give an address up when another one takes it. */
    find: ({ config, adverts, assessment, linkHolders, processes }) =>
      given([adverts, assessment, linkHolders, processes], (seen, { observation }, vipHolders, running) => {
        const local = new Set(observation.addresses.map(({ address }) => address));
        return checkEach(config.vips, noVip, (vip) => {
          const vipHolder = vipHolders.get(vip.address);
          if (vipHolder === undefined) return { unknown: `this host cannot ask who else has ${vip.address}` };
          const isHere = local.has(vip.address);
          const isMember = seen.some((one) => advertises(one, vip.address) && !local.has(one.source));
          if (vipHolder === null || isMember || (!isHere && running.some(isKubeVip))) return null;
          return describeForeignVipHolder(vip, vipHolder, isHere);
        });
      }),
  },
  'vip-on-kube-ipvs0': {
    levels: ['fail'],
    meaning: 'A Service has the VIP as an external address.',
    /** kube-proxy's ipvs mode binds what Services call externalIPs and load-balancer addresses, on every node (kubernetes#66966). */
    find: byReading(({ observation }, { config }) =>
      checkEach(config.vips, noVip, ({ address }) => {
        const bound = observation.addresses.filter(
          (local) => local.address === address && local.device === 'kube-ipvs0',
        );
        return bound.map(() => ({
          title: `${address} is bound to kube-ipvs0: a Service has it as an external address`,
          why: 'Every node then treats the VIP as its own address. Only the VIP holder reaches apiservers through it.',
          remedy: [
            `kubectl get services -A | grep -wF ${address}`,
            '# then remove the VIP from that Service: spec.externalIPs, or status.loadBalancer',
          ],
        }));
      }),
    ),
  },
};

/** A firewall can keep back every answer but that to ARP, or to neighbour discovery. */
function describeNobody({ address }: Endpoint, facts: HostFacts): Finding {
  const isSure = findValue(facts.linkHolders)?.get(address) === null;
  return {
    level: isSure ? 'fail' : 'warn',
    title: isSure
      ? `${address} is held by no host: not by this node, and no host on its network answers for it`
      : `${address} may be held by no host: not by this node, and the address does not answer`,
    why: 'Clients of the VIP reach no apiserver.',
    remedy: describeRevival(isSure, facts),
  };
}

/** If keepalived is started and does not receive the VIP holder's adverts, it holds the address as well. */
function describeRevival(isSure: boolean, { units, keepalived, flags }: HostFacts): string[] {
  const configuration = findValue(keepalived);
  if (configuration?.text === null)
    return [`# this host has no ${configuration.path}. On each control-plane node: vipnat doctor ${flags}`];
  if (!units.has('keepalived')) {
    return [
      '# this host has no keepalived unit. Read the log of its pod, or docs/install.md for how to run keepalived',
    ];
  }
  const restart = 'systemctl restart keepalived';
  return [
    'journalctl -u keepalived -n 50 --no-pager',
    isSure ? restart : `# if no host has the VIP: ${restart}`,
  ];
}

function describeForeignVipHolder({ address }: Endpoint, vipHolder: LinkHolder, isHere: boolean): Finding {
  const name = [...vipHolder.addresses, `MAC ${vipHolder.mac}`].join(', ');
  return {
    level: isHere ? 'fail' : 'warn',
    title: isHere
      ? `${address} is held twice: by this node, and by a host that sends no VRRP here (${name})`
      : `${address} is held by a host that sends no VRRP here (${name})`,
    why: isHere
      ? 'Each client reaches one of the two hosts at random. The other host ignores keepalived and never gives the address up.'
      : 'That host ignores keepalived and never gives the address up. If keepalived starts here, two hosts have the address.',
    remedy: [
      `# find the host by its MAC: the table of the switch has its port, and ip neigh its other addresses`,
      `# if kube-vip runs there: docs/migrate.md. Otherwise find out on that host what adds the address: ip addr show to ${address}`,
    ],
  };
}

/** Lets adverts of the other hosts through to the keepalived that runs here. */
function admit(others: readonly string[], tool: string, { keepalived }: HostFacts): string[] {
  const file = findValue(keepalived)?.path ?? keepalivedFile;
  return [
    '# its adverts arrive here. Most often a firewall, here or there, drops them before keepalived',
    ...others.map((other) => `${tool} -I INPUT -p vrrp -s ${other} -j ACCEPT`),
    `# otherwise ${file} differs from the file of the other node: authentication, version, peers`,
  ];
}
