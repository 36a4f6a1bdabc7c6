/** Where connections have to go when the agent was left alone: the design's word, read from the world and not from the product. */
import { type World, listEndpoints } from './world.ts';
import { seats, followVip, followUnhooked, untranslated, listRealServers, followService } from './packet.ts';
import { type EndpointSet, endpointSets, three, clusterIp } from './small-world.ts';
import { formatEndpoint } from '../../../../lib/net.ts';
import { oncePerKernel } from './kernels.ts';
import { printOurs } from '../../property/tables.ts';
import { wantsChainGone, countPins } from './rounds.ts';

/** What is wrong with where connections go; empty for nothing. */
export function findWrongEnd(world: World): string[] {
  const [ends = '', fromHere = ''] = seats.map((seat) => toText(followVip(world.kernel)[seat]));
  const allowed = listAllowed(world);
  return [
    ...(ends === fromHere ? [] : [`clients elsewhere get to ${ends}, clients here to ${fromHere}`]),
    ...(allowed.includes(ends) ? [] : [`connections go to ${ends}, and should to ${allowed.join(' or ')}`]),
    ...checkWay(world, ends),
    ...checkHooks(world),
  ];
}

function listAllowed(world: World): string[] {
  const { api, process, saved, kernel } = world;
  const proxied = listProxied(world);
  const listed = (set: EndpointSet) => endpointSets[set].map(formatEndpoint);
  if (api?.isAnswered === true) return [toText(chooseUsable(world, listed(api.set)))];
  // While the API is lost its word counts until kube-proxy has heard something newer: which of them is for the next look.
  const heard = api === null ? [] : [listed(api.set)];
  const leftBehind = api === null ? [] : toEndpoints(followUnhooked(kernel));
  const live = [...heard, proxied, leftBehind].filter((endpoints) => endpoints.length > 0);
  if (live.length > 0) return live.map((endpoints) => toText(chooseUsable(world, endpoints)));
  // Nobody names any now: whoever was named last, as far as anything remembers it.
  const isAnyKnown = listEndpoints(process.memory.endpoints).length > 0 || listEndpoints(saved).length > 0;
  const sets = (['three', 'two'] as const).map((set) => toText(chooseUsable(world, listed(set))));
  return isAnyKnown ? sets : [...sets, untranslated];
}

/** The ready ones, else those that are going, else all: that all are dead says more about the prober. */
function chooseUsable({ health }: World, endpoints: readonly string[]): string[] {
  const stateOf = (text: string) => health[three.findIndex((one) => formatEndpoint(one) === text)] ?? 'ready';
  for (const state of ['ready', 'draining'] as const) {
    const chosen = endpoints.filter((text) => stateOf(text) === state);
    if (chosen.length > 0) return chosen;
  }
  return [...endpoints];
}

/** Whom kube-proxy's own rules send the service's connections to, as packets see it. */
function listProxied({ kernel, proxy, isProxyAnswering }: World): string[] {
  if (proxy.mode === 'nftables') return endpointSets[proxy.set].map(formatEndpoint);
  // Others have virtual servers too: kube-proxy's are known by its word, or by the rules that come with them.
  if (proxy.mode === 'ipvs') return isProxyAnswering || hasIpvsRules(kernel) ? listRealServers(kernel) : [];
  return toEndpoints(followService(kernel));
}

function toEndpoints(ends: ReadonlySet<string>): string[] {
  return [...ends].filter((end) => /^[\d.]+:\d+$/.test(end));
}

const printOwn = oncePerKernel(({ kernel }) => printOurs(kernel));

const hasIpvsRules = oncePerKernel(({ kernel }) =>
  kernel.show('ipv4', 'nft').includes('--match-set KUBE-CLUSTER-IP '),
);

/** The table of ways: kube-proxy's own path is taken exactly while it is there, wanted, and as we would have it. */
function checkWay(world: World, ends: string): string[] {
  const { kernel, proxy, isProxyAnswering, health } = world;
  if (!isProxyAnswering) return [];
  const isSame = toText(listProxied(world)) === ends && !isAllDead(ends, health);
  const wantsChain = proxy.mode === 'iptables' && isSame && !wantsChainGone(kernel);
  const wantsServer = proxy.mode === 'ipvs' && isSame;
  const hasChain = countPins(kernel) > 0;
  const hasServer = printOwn(kernel).some((rule) =>
    rule.includes(`--to-destination ${formatEndpoint(clusterIp)}`),
  );
  return [
    ...(wantsChain === hasChain ? [] : [`the way is ${hasChain ? '' : 'not '}service-chain`]),
    ...(wantsServer === hasServer ? [] : [`the way is ${hasServer ? '' : 'not '}cluster-ip`]),
  ];
}

function isAllDead(ends: string, health: World['health']): boolean {
  return ends
    .split(' ')
    .every((end) => health[three.findIndex((one) => formatEndpoint(one) === end)] === 'dead');
}

/** What is balanced is let pass and gets our address, by whatever it is written to. */
function checkHooks({ kernel }: World): string[] {
  const rules = printOwn(kernel).join('\n');
  const isTable = rules.includes('table ip vipnat');
  const [pass, translate] = isTable
    ? [/ct original ip daddr 10\.0\.0\.50 .*accept/, /ct original ip daddr 10\.0\.0\.50 .*masquerade/]
    : [/filter FORWARD .*-j VIPNAT-FORWARD/, /nat POSTROUTING .*-j VIPNAT-POSTROUTING/];
  return [
    ...(pass.test(rules) ? [] : ['nothing lets pass what is balanced']),
    ...(translate.test(rules) ? [] : ['nothing masquerades what is balanced']),
  ];
}

function toText(ends: Iterable<string>): string {
  return [...ends].toSorted().join(' ');
}
