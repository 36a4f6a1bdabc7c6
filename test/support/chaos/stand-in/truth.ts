import type { IptablesDialect } from '../../../../lib/kernel/port.ts';
import { Ejections } from '../world/ejections.ts';
import type { SeatName } from '../../network/cluster.ts';
import type { Family } from '../../../../lib/net.ts';
import type { Expectation } from '../world/judge.ts';

export const agentHosts = ['m1', 'm2'] as const;

export type AgentHost = (typeof agentHosts)[number];

/** All masters: each has an apiserver of its name. */
export const apiservers = ['m1', 'm2', 'm3'] as const;

export type Apiserver = (typeof apiservers)[number];

export type Condition = 'well' | 'slow' | 'failing' | 'frozen' | 'blackholed' | 'dead';

/** What a kube-proxy is and has told the kernel of default/kubernetes. */
export interface Proxy {
  mode: 'iptables' | 'nftables' | 'none';
  dialect: IptablesDialect;
  /** The apiservers in its live rules; none where its rules are gone. */
  list: readonly Apiserver[];
  /** Whether its last restore failed: it tries again. */
  isBehind: boolean;
  /** Where it may have left rules when it went to another mode or backend: whatever leads to a chain keeps it there. */
  readonly left: Set<IptablesDialect>;
}

/** All that is true of the world, as far as it decides where connections go. The strangers' steps change it, vipnat never does. */
export interface Truth {
  holder: AgentHost;
  readonly conditions: Record<Apiserver, Condition>;
  readonly ejections: Ejections;
  readonly proxies: Record<AgentHost, Proxy>;
  /** What the API lists; m1's agent has credentials for it. */
  readonly api: Api;
}

interface Api {
  list: readonly Apiserver[];
  manner: ApiManner;
  /** All that it and kube-proxy listed since there was quiet and the API well: then the agent kept what it had heard. */
  remembered: (readonly Apiserver[])[];
  /** Whether the agent's file may hold less: one that starts then knows nobody but those in its own rules, where nobody else lists any. */
  isForgotten: boolean;
}

/** How the API of m1's agent answers, see KubeApi. */
export type ApiManner = 'well' | 'failing' | 'hanging';

/** After more ejections within the time an apiserver may have to be good for long before it is used again (docs/design.md). */
const quickEjections = 2;
const ejectionMemoryMs = 100_000;

/** A world in which all is right. */
export function createTruth(): Truth {
  const proxy = (): Proxy => ({
    mode: 'iptables',
    dialect: 'nft',
    list: apiservers,
    isBehind: false,
    left: new Set(),
  });
  return {
    holder: 'm1',
    conditions: { m1: 'well', m2: 'well', m3: 'well' },
    ejections: new Ejections(),
    proxies: { m1: proxy(), m2: proxy() },
    api: { list: apiservers, manner: 'well', remembered: [apiservers], isForgotten: false },
  };
}

/** To be told whenever somebody has listed apiservers. */
export function rememberLists({ api, proxies }: Truth): void {
  const lists = [api.list, ...Object.values(proxies).map(({ list }) => list)];
  api.remembered.push(...lists.filter((list) => list.length > 0));
}

/** To be told in quiet, when all is right, with the apiservers that the agent's file holds. */
export function forgetLists({ api }: Truth, saved: readonly Apiserver[]): void {
  if (api.manner !== 'well') return;
  api.remembered = [api.list];
  api.isForgotten = api.list.some((name) => !saved.includes(name));
}

/** Whether an apiserver does all that it has to. */
export function isGood(condition: Condition): boolean {
  return condition === 'well' || condition === 'slow';
}

/** Whose agent balances connections from a place: its own host's, or that of the VIP's holder. */
export function findBalancer(seat: SeatName, { holder }: Truth): AgentHost {
  if (seat === "VIP holder's host") return 'm1';
  return seat === 'pod on a master' ? 'm2' : holder;
}

/** Nobody can be required then. */
const ownRulesOnly: readonly Apiserver[] = [];

/**
 * The apiservers that the agent of a host may know of for a family, by docs/design.md: the API's word, else kube-proxy's, else what it
 * was given. Several sets where it depends on what it has seen before.
 */
function listKnown(host: AgentHost, family: Family, { api, proxies }: Truth): (readonly Apiserver[])[] {
  const proxied = proxies[host].list;
  const byProxy = proxied.length > 0 ? proxied : apiservers;
  // Only m1 has credentials, and the API's slice is of IPv4; everybody is given all apiservers for the rest.
  if (host !== 'm1' || family !== 'ipv4') return [byProxy];
  if (api.manner === 'well') return [api.list];
  // One that was started since may have nothing but a memory, and of any of them that it heard of.
  const known = [api.list, byProxy, ...api.remembered];
  return api.isForgotten && proxied.length === 0 ? [...known, ownRulesOnly] : known;
}

/** Where connections that an agent balances go in quiet, once the apiservers of `listMissed` are well again. */
export function expectAnswers(host: AgentHost, family: Family, truth: Truth): Expectation {
  const sets = listKnown(host, family, truth).map((known) =>
    known.filter((name) => isGood(truth.conditions[name])),
  );
  const isSettled = (name: Apiserver) => truth.ejections.count(name, ejectionMemoryMs) <= quickEjections;
  return {
    allowed: apiservers.filter((name) => sets.some((set) => set.includes(name))),
    required: apiservers.filter((name) => sets.every((set) => set.includes(name)) && isSettled(name)),
  };
}

/**
 * The apiservers that have to be well again, so that the promises are about this world: whoever may be balanced over has one that
 * is good, and one on another host that is heard of. Without it nothing is known of the others, and the set is kept (docs/design.md).
 */
export function listMissed(truth: Truth): Apiserver[] {
  const sets = agentHosts.flatMap((host) => [
    ...listKnown(host, 'ipv4', truth).map((known) => ({ host, known })),
    ...listKnown(host, 'ipv6', truth).map((known) => ({ host, known })),
  ]);
  const missed = sets.flatMap(({ host, known }) => {
    // Whoever is in its rules has to be good: it may be anybody.
    if (known === ownRulesOnly) return apiservers.filter((name) => !isGood(truth.conditions[name]));
    const isServed = known.some((name) => isGood(truth.conditions[name]));
    const others = known.filter((name) => name !== host);
    const isAnswered = others.some((name) => truth.conditions[name] !== 'blackholed');
    return [...(isServed ? [] : known.slice(0, 1)), ...(isAnswered ? [] : others)];
  });
  return [...new Set(missed)];
}
