import { type Endpoint } from '../../../lib/address/endpoint.ts';
import { findInstance, keepalivedFile } from '../../../lib/keepalived/find.ts';
import { toolName } from '../../../lib/kernel/tools/tool-name.ts';
import { quoteWords } from '../../../lib/text/shell-words.ts';
import { advertises, findDoubles } from '../facts/adverts.ts';
import { type Check } from '../facts/check.ts';
import { type Finding, given, lookAt, type NotChecked } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';
import { type LinkHolder } from '../facts/holders.ts';
import { isHeldElsewhere, isKeepalivedHere } from '../facts/held.ts';
import { isInSubnet } from '../../generate/keepalived/interface.ts';
import { isKubeVip } from './foreign.ts';

/** Whether each virtual IP is somewhere, and only there. */
export const virtualIpChecks: readonly Check[] = [
  { code: 'vip-nowhere', find: findNobody },
  { code: 'vip-off-network', find: findStrayAddress },
  { code: 'vip-held-twice', find: findSeveralHolders },
  { code: 'vip-held-without-vrrp', find: findForeignHolder },
  { code: 'vip-on-kube-ipvs0', find: findServiceAddress },
];

function findNobody(facts: HostFacts): ReturnType<Check['find']> {
  const { config, holderAnswers } = facts;
  return given([facts.assessment], ({ observation }) =>
    lookAt(config.vips, noVip, (vip): Finding[] | NotChecked => {
      if (observation.addresses.some(({ address }) => address === vip.address)) return [];
      const answer = holderAnswers.get(vip.address);
      if (isHeldElsewhere(vip, facts)) return [];
      if (answer === undefined) return { unknown: `nobody was asked for ${vip.address}` };
      if (answer.kind === 'untried')
        return { unknown: `no connection to ${vip.address} could be tried (${answer.code})` };
      return [describeNobody(vip, facts)];
    }),
  );
}

const noVip = { unknown: 'no virtual IP is named' };

/** A firewall can keep back every answer but that to ARP, or to neighbour discovery. */
function describeNobody({ address }: Endpoint, facts: HostFacts): Finding {
  const { linkHolders } = facts;
  const isSure = 'value' in linkHolders && linkHolders.value.get(address) === null;
  return {
    level: isSure ? 'fail' : 'warn',
    title: isSure
      ? `${address} is held by nobody: not by this node, and no host on its network answers for it`
      : `${address} may be held by nobody: not by this node, and no answer comes from it`,
    why: 'Clients reach no apiserver at all by it.',
    remedy: describeRevival(isSure, facts),
  };
}

/** Started beside a holder that it does not hear, keepalived holds the address as well. */
function describeRevival(isSure: boolean, { units, keepalived, flags }: HostFacts): string[] {
  if ('value' in keepalived && keepalived.value.text === null) {
    return [
      `# this host has no ${keepalived.value.path}. On each control-plane node: vipnat doctor ${flags}`,
    ];
  }
  if (!units.has('keepalived')) {
    return ['# no unit of keepalived is here: see what its pod says, or docs/install.md for how it is run'];
  }
  const restart = 'systemctl restart keepalived';
  return ['journalctl -u keepalived -n 50 --no-pager', isSure ? restart : `# when nobody has it: ${restart}`];
}

/** Whoever is in no network with it does not ask for it by ARP. Where keepalived was told its interface, that is meant so. */
function findStrayAddress({ config, interfaces, keepalived, flags }: HostFacts): ReturnType<Check['find']> {
  const text = 'value' in keepalived ? (keepalived.value.text ?? '') : '';
  return lookAt(config.vips, noVip, ({ address, family }) => {
    const around = interfaces.filter((one) => one.family === family);
    const isPlaced = around.some((local) => isInSubnet(address, local));
    if (isPlaced || findInstance(text, address) !== null) return [];
    const networks = around.map((one) => `${one.device} ${one.address}/${one.prefixLength}`).join(', ');
    const [first = { device: 'eth0' }] = around;
    return [
      {
        level: 'warn',
        title: `${address} is in no network of this host (${networks === '' ? `no ${family} address` : networks})`,
        why: 'Neighbours do not ask for it by ARP, so it is reached only by a route that leads to its holder.',
        remedy: [
          '# a slip: choose a free address of one of these networks',
          `# meant so: vipnat keepalived ${flags} --interface ${quoteWords([first.device])}`,
        ],
      },
    ];
  });
}

/** Only members of the group give an address up when another one takes it. */
function findForeignHolder(facts: HostFacts): ReturnType<Check['find']> {
  const { config, adverts, assessment, linkHolders, processes } = facts;
  return given([adverts, assessment, linkHolders, processes], (seen, { observation }, holders, running) => {
    const local = new Set(observation.addresses.map(({ address }) => address));
    return lookAt(config.vips, noVip, (vip): Finding[] | NotChecked => {
      const holder = holders.get(vip.address);
      if (holder === undefined) return { unknown: `who else has ${vip.address} cannot be asked from here` };
      const isHere = local.has(vip.address);
      const isMember = seen.some((advert) => advertises(advert, vip.address) && !local.has(advert.source));
      if (holder === null || isMember || (!isHere && running.some(isKubeVip))) return [];
      return [describeForeignHolder(vip, holder, isHere)];
    });
  });
}

function describeForeignHolder({ address }: Endpoint, holder: LinkHolder, isHere: boolean): Finding {
  const name = [...holder.addresses, `MAC ${holder.mac}`].join(', ');
  return {
    level: isHere ? 'fail' : 'warn',
    title: isHere
      ? `${address} is held twice: by this node, and by a host that sends no VRRP here (${name})`
      : `${address} is held by a host that sends no VRRP here (${name})`,
    why: isHere
      ? 'Clients come to one or the other by chance. That host does not hear of keepalived, and never gives the address up.'
      : 'It does not hear of keepalived, and never gives the address up: a keepalived that starts here holds it as well.',
    remedy: [
      `# find the host by its MAC: the switch's table has its port, and ip neigh its other addresses`,
      `# kube-vip there: docs/migrate.md. Else, on that host, after a look at what adds it: ip addr show to ${address}`,
    ],
  };
}

/** Two who send at the same time do not hear each other: what is captured here was not through this host's firewall yet. */
function findSeveralHolders({
  config,
  assessment,
  adverts,
  processes,
  keepalived,
}: HostFacts): ReturnType<Check['find']> {
  const file = 'value' in keepalived ? keepalived.value.path : keepalivedFile;
  return given([adverts, assessment, processes], (seen, { observation }, running) =>
    lookAt(config.vips, noVip, (vip): Finding[] => {
      const local = new Set(observation.addresses.map(({ address }) => address));
      const others = findDoubles(seen, vip.address, local);
      const [first] = others;
      if (first === undefined) return [];
      const device = observation.addresses.find(({ address }) => address === vip.address)?.device;
      const isLocal = device !== undefined;
      const dialect = observation.dialect.value === 'nftables' ? 'nft' : observation.dialect.value;
      const tool = toolName(vip.family, dialect);
      const prefix = vip.family === 'ipv6' ? 128 : 32;
      const names = others.join(', ');
      return [
        {
          level: 'fail',
          title: isLocal
            ? `${vip.address} is held twice: by this node and by ${names}`
            : `${vip.address} is held twice: by ${names}`,
          why: 'Clients come to one or the other by chance, and connections break when the switch changes its mind.',
          remedy: describeSeparation({
            isLocal,
            isRunning: isKeepalivedHere(running),
            others,
            tool,
            device,
            own: `${vip.address}/${prefix}`,
            file,
          }),
        },
      ];
    }),
  );
}

interface Separation {
  readonly isLocal: boolean;
  readonly isRunning: boolean;
  readonly others: readonly string[];
  readonly tool: string;
  readonly device: string | undefined;
  readonly own: string;
  /** keepalived's configuration. */
  readonly file: string;
}

function describeSeparation({ isLocal, isRunning, others, tool, device, own, file }: Separation): string[] {
  if (!isLocal) return others.map((other) => `# on ${other}: vipnat doctor`);
  if (!isRunning && device !== undefined) {
    return [
      '# no keepalived runs here: somebody else added the address',
      quoteWords(['ip', 'addr', 'del', own, 'dev', device]),
    ];
  }
  return [
    '# what it sends arrives here; most often a firewall keeps it from keepalived, here or there',
    ...others.map((other) => `${tool} -I INPUT -p vrrp -s ${other} -j ACCEPT`),
    `# else ${file} differs from the other node's: authentication, version, peers`,
  ];
}

/** kube-proxy's ipvs mode binds what Services call externalIPs and load-balancer addresses, on every node (kubernetes#66966). */
function findServiceAddress({ config, assessment }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ observation }) =>
    lookAt(config.vips, noVip, ({ address }) => {
      const bound = observation.addresses.filter(
        (local) => local.address === address && local.device === 'kube-ipvs0',
      );
      return bound.map(() => ({
        level: 'fail',
        title: `${address} is bound to kube-ipvs0: a Service has it as an external address`,
        why: 'Every node takes it for its own then, and nodes that do not hold it reach no apiserver by it.',
        remedy: [
          `kubectl get services -A | grep -wF ${address}`,
          '# then take it out of that Service: spec.externalIPs, or status.loadBalancer',
        ],
      }));
    }),
  );
}
