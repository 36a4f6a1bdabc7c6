import { readCaptures } from '../engine/captures.ts';
import { selectServiceObjects } from '../../../support/fakes/nft-proxy.ts';
import { nftServiceChain } from '../../../../lib/kube-proxy/read.ts';
import type { Config } from '../../../../config/options.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import type { KernelReading } from '../../../../lib/kernel/port.ts';
import type { Health } from '../../../../agent/health/usable.ts';
import type { Random } from '../../../support/random/random.ts';
import { mutateText } from '../engine/mutate.ts';
import { printTables, makeTables } from './tables.ts';
import { makeConfig } from './config.ts';
import { makeHostileText } from '../engine/hostile.ts';
import { mutateJson } from './json.ts';
import { type Assessment, emptyState } from '../../../../agent/decide/decision.ts';
import { interpret } from '../../../../agent/observe/observe.ts';
import { findCandidates } from '../../../../agent/endpoints.ts';
import { assess } from '../../../../agent/read-host.ts';

const saves = readCaptures(/^iptables-nft-save|^own-rules\.(?:nft|legacy)\.ipv4/);
const nftTables = readCaptures(/^own-rules\.nftables/);
const ipvs = readCaptures(/^proc-net-ip_vs/);
const proxies = readCaptures(/^nft-.*\.json$/).map((text) => {
  const { nftables } = JSON.parse(text) as { nftables: unknown[] };
  return selectServiceObjects(nftables, nftServiceChain);
});

const base: Config = {
  ...ordinaryConfig,
  vips: ['10.77.0.50:6443', '10.0.0.50:6443', '[fd00::50]:6443'].map(toEndpoint),
};

/** A host on which anybody did anything, and how it is looked at. */
interface OddHost {
  readonly config: Config;
  readonly reading: KernelReading;
  /** What kube-proxy answers. */
  readonly answer: string | null;
  /** How its apiservers are, in whoever's words. */
  readonly health: ReadonlyMap<string, Health>;
}

export function makeOddHost(random: Random): OddHost {
  const save = () => (random.chance(60) ? mutateText(random, saves) : printTables(makeTables(random)));
  const states = ['ready', 'dead', 'draining', 'warming'] as const;
  const apiservers = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443', '[fd00:77::11]:6443'];
  return {
    config: {
      ...makeConfig(random, base),
      endpoints: random.chance(40) ? apiservers.slice(1).map(toEndpoint) : [],
    },
    answer: random.pick([null, null, 'iptables', 'ipvs', 'nftables', makeHostileText(random)]),
    reading: {
      iptables: [
        { family: 'ipv4', dialect: 'nft', text: save() },
        ...(random.chance(30) ? [{ family: 'ipv4', dialect: 'legacy', text: save() } as const] : []),
        ...(random.chance(30) ? [{ family: 'ipv6', dialect: 'nft', text: save() } as const] : []),
      ],
      nftTables: random.chance(60)
        ? [{ family: 'ipv4', text: random.chance(60) ? mutateText(random, nftTables) : '' }]
        : [],
      addresses: random.list(3, () => ({
        family: 'ipv4',
        address: random.pick(['10.77.0.50', '10.77.0.11', '10.0.0.50']),
        device: makeHostileText(random),
      })),
      ipvs: random.chance(20) ? mutateText(random, ipvs) : null,
      forwarding: { ipv4: random.chance(90), ipv6: random.pick([true, false, null]) },
      advertised: random.chance(20) ? [makeHostileText(random)] : [],
      unread: [],
      nftProxies: random.chance(30)
        ? [
            { family: 'ipv4' as const, objects: mutateJson(random, random.pick(proxies)) as unknown[] },
          ].filter(({ objects }) => Array.isArray(objects))
        : [],
    },
    health: new Map(
      apiservers.map((text) => [
        text,
        { state: random.pick(states), reason: makeHostileText(random), staleConnections: 'none' as const },
      ]),
    ),
  };
}

/** A whole look at it: what an agent would decide and write. Throws a coded error where it cannot be understood. */
export function lookAtOddHost({ config, reading, answer, health }: OddHost): Assessment {
  const observation = interpret(reading, answer, config);
  const candidates = findCandidates(observation, emptyState, config);
  return assess({ observation, localRoutes: null, candidates, health, memory: emptyState }, config);
}
