import { type Endpoint } from '../../lib/address/endpoint.ts';
import { keepalivedFile } from '../../lib/keepalived/find.ts';
import { toolName } from '../../lib/kernel/tool-name.ts';
import { quoteWords } from '../../lib/shell-words.ts';
import { type ConnectOutcome } from '../health/apiserver.ts';
import { advertises, findDoubles } from './adverts.ts';
import { type Check } from './check.ts';
import { type Finding, given, lookAt, type NotChecked } from './fact.ts';
import { type HostFacts } from './host-facts.ts';
import { isKeepalivedHere } from './keepalived.ts';

/** Whether each virtual IP is somewhere, and only there. */
export const virtualIpChecks: readonly Check[] = [
  { code: 'vip-nowhere', find: findNobody },
  { code: 'vip-held-twice', find: findSeveralHolders },
  { code: 'vip-on-kube-ipvs0', find: findServiceAddress },
];

function findNobody(facts: HostFacts): ReturnType<Check['find']> {
  const { config, adverts, holderAnswers } = facts;
  return given([facts.assessment], ({ observation }) =>
    lookAt(config.vips, noVip, (vip): Finding[] | NotChecked => {
      if (observation.addresses.some(({ address }) => address === vip.address)) return [];
      const answer = holderAnswers.get(vip.address);
      const isAdvertised =
        'value' in adverts && adverts.value.some((advert) => advertises(advert, vip.address));
      if (isAdvertised || answer?.kind === 'open' || answer?.kind === 'refused') return [];
      if (answer === undefined) return { unknown: `nobody was asked for ${vip.address}` };
      if (answer.kind === 'untried')
        return { unknown: `no connection to ${vip.address} could be tried (${answer.code})` };
      return [describeNobody(vip, answer, facts)];
    }),
  );
}

const noVip = { unknown: 'no virtual IP is named' };

function describeNobody(
  { address }: Endpoint,
  answer: ConnectOutcome,
  { processes, adverts }: HostFacts,
): Finding {
  const isSure = answer.kind === 'unreachable' || 'value' in adverts;
  const isRunning = 'value' in processes && isKeepalivedHere(processes.value);
  return {
    level: isSure ? 'fail' : 'warn',
    title: `${address} is held by nobody: not by this node, and no host answers for it`,
    why: 'Clients reach no apiserver at all by it.',
    remedy: isRunning
      ? [`journalctl -u keepalived -n 50 --no-pager`, `systemctl restart keepalived`]
      : [`systemctl restart keepalived`],
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
      const backend = observation.backend.value === 'nftables' ? 'nft' : observation.backend.value;
      const tool = toolName(vip.family, backend);
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
