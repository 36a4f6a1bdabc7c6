/** The balancer beside the real kube-proxy in every mode that this kernel has, and without one, for both families. */
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { families, type Family } from '../../../lib/address/address.ts';
import { tell } from '../../support/lab/test-lab.ts';
import { outsider } from '../../support/network/layout.ts';
import {
  nodeOf,
  podNames,
  proxiedNames,
  ProxiedNodes,
  type ProxySetUp,
  type SetUpName,
  setUpNames,
  setUps,
} from './proxied-nodes.ts';
import { secondPort, services } from './proxied-services.ts';

const limitMs = 180_000;
jest.setTimeout(limitMs);

/** Pods and clients share a machine with more to do: what counts is whether an answer comes, not when. */
const answerMs = 10_000;

/** New connections from outside while something changes. */
const totalPerSecond = 200;

/** Of connections: enough for shares and to miss none of four pods by chance. */
const count = 60;

/** A balancer's tables count for 30 s without it. */
const switchMs = 31_000;

let raised: ProxiedNodes | undefined;
const world = (): ProxiedNodes => {
  if (raised === undefined) throw new Error('nothing is up');
  return raised;
};

beforeAll(async () => {
  raised = await ProxiedNodes.raise();
  await raised.startBalancers();
  tell(`the logs are in ${raised.folder} until the next run`);
}, 15 * 60_000);
afterAll(async () => {
  await raised?.end();
});

const cases = setUpNames.flatMap((name) => families.map((family) => [name, family] as const));
const even = Object.fromEntries(podNames.map((pod) => [pod, count / podNames.length]));

/** Who answers the address of a node, by TCP. */
async function ask(name: SetUpName, family: Family, port: number, place = outsider.name) {
  const { apiservers, errors } = await world().seat(place).greet(nodeOf(name).vips[family], port, count);
  return { apiservers, errors: Object.keys(errors) };
}

/** Who answers it, by UDP: names with how often. */
async function askByUdp(name: SetUpName, family: Family, port: number) {
  const answers = await world().askByUdp(nodeOf(name).vips[family], port, count);
  const names = answers.map((answer) => answer.split(' ')[0] ?? '');
  return Object.fromEntries([...new Set(names)].map((one) => [one, names.filter((it) => it === one).length]));
}

describe.each(cases)('beside kube-proxy in mode %s, %s', (name, family) => {
  const node = nodeOf(name);
  const { web, hash, kept, local, ranges, ending, nobody, 'one-ready': oneReady } = services;

  test.each([
    ['outside', outsider.name],
    ['on the node', node.name],
    ['in a pod there, which is one of the four', node.pod],
  ])('a client %s reaches all pods evenly', async (_, place) => {
    expect(await ask(name, family, web.port, place)).toEqual({ apiservers: even, errors: [] });
  });

  test('packets of UDP reach all pods evenly, at each port of the Service', async () => {
    expect(await askByUdp(name, family, web.port)).toEqual(even);
    const second = Object.fromEntries(Object.entries(even).map(([pod, share]) => [`${pod}-second`, share]));
    expect(await askByUdp(name, family, secondPort)).toEqual(second);
  });

  test('a client keeps its pod, by affinity and by its hash', async () => {
    for (const { port } of [kept, hash]) {
      const { apiservers, errors } = await ask(name, family, port);
      expect({ shares: Object.values(apiservers), errors }).toEqual({ shares: [count], errors: [] });
    }
  });

  test('with policy Local clients reach pods of all nodes, which see them', async () => {
    const seen = await world().seat(outsider.name).request(node.vips[family], local.port, count);
    expect(Object.keys(seen.apiservers).sort()).toEqual(podNames);
    expect(seen).toMatchObject({ errors: {}, from: { [outsider.addresses[family]]: count } });
    expect(Object.keys(await askByUdp(name, family, local.port)).sort()).toEqual(podNames);
    const own = { apiservers: { [node.pod]: count }, errors: [] };
    expect(await ask(name, family, local.port, node.name)).toEqual(own);
    expect(await ask(name, family, local.port, node.pod)).toEqual(own);
  });

  test('source ranges let pods come, and nobody from outside', async () => {
    expect(await askByUdp(name, family, ranges.port)).toEqual({ lost: count });
    const { apiservers, errors } = await ask(name, family, ranges.port, node.pod);
    expect({ names: Object.keys(apiservers).sort(), errors }).toEqual({ names: podNames, errors: [] });
  });

  test('pods that end serve while none is ready, and no longer when one is', async () => {
    const { apiservers, errors } = await ask(name, family, ending.port);
    expect({ names: Object.keys(apiservers).sort(), errors }).toEqual({ names: podNames, errors: [] });
    const one = { apiservers: { [podNames[0] ?? '']: count }, errors: [] };
    expect(await ask(name, family, oneReady.port)).toEqual(one);
  });

  test('without a pod connections are refused', async () => {
    expect(await ask(name, family, nobody.port)).toEqual({ apiservers: {}, errors: ['ECONNREFUSED'] });
  });
});

/** Whether all connections of one client go to one pod, as by the balancer's hash; kube-proxy does not know this wish. */
async function whoDecides(name: SetUpName, family: Family): Promise<string> {
  const { apiservers, errors } = await ask(name, family, services.hash.port);
  if (errors.length > 0) return errors.join();
  return Object.keys(apiservers).length === 1 ? 'vipnat' : 'kube-proxy';
}

async function listDeciders(): Promise<Record<string, string>> {
  const decided: Record<string, string> = {};
  for (const [name, family] of cases) decided[`${name}, ${family}`] = await whoDecides(name, family);
  return decided;
}

/** Connections from outside to the addresses of nodes, until what is done has been done; none may fail. */
async function underLoad(names: readonly SetUpName[], action: () => Promise<void>): Promise<void> {
  const targets = cases.filter(([name]) => names.includes(name));
  const perSecond = Math.ceil(totalPerSecond / targets.length);
  const loads = targets.map(([name, family]) => {
    const seat = world().seat(outsider.name, `load on ${name}, ${family}`);
    const target = { host: nodeOf(name).vips[family], port: services.web.port, isNamed: true };
    const pace = { perSecond, durationMs: limitMs, limitMs: answerMs };
    return { seat, report: seat.connectAtRate({ ...target, ...pace }) };
  });
  const startedMs = performance.now();
  try {
    await action();
  } finally {
    for (const { seat } of loads) seat.settle();
  }
  const enough = (perSecond * (performance.now() - startedMs)) / 1000 / 2;
  const reports = await Promise.all(loads.map(({ report }) => report));
  for (const [at, { sent, failures }] of reports.entries()) {
    const seen = { target: targets[at]?.join(), failures, hasSent: sent > enough };
    expect(seen).toEqual({ ...seen, failures: [], hasSent: true });
  }
  tell(`${reports.reduce((sum, { sent }) => sum + sent, 0)} connections, 0 failed`);
}

test('half a minute after the balancers are killed kube-proxy has the addresses, until they are back: no connection fails', async () => {
  const byVipnat = Object.fromEntries(cases.map(([name, family]) => [`${name}, ${family}`, 'vipnat']));
  const byProxies = Object.fromEntries(
    cases.map(([name, family]) => [
      `${name}, ${family}`,
      setUps[name].mode === 'none' ? 'ECONNREFUSED' : 'kube-proxy',
    ]),
  );
  await underLoad(proxiedNames, async () => {
    expect(await listDeciders()).toEqual(byVipnat);
    await world().killBalancers();
    expect(await listDeciders()).toEqual(byVipnat);
    await sleep(switchMs);
    expect(await listDeciders()).toEqual(byProxies);
    await world().startBalancers();
    expect(await listDeciders()).toEqual(byVipnat);
  });
});

test('kube-proxy is restarted, and changes its mode and its tools: no connection fails', async () => {
  const name = 'iptables (nft)';
  const changes: readonly ProxySetUp[] = [
    setUps['iptables (nft)'],
    setUps.nftables,
    setUps['iptables (legacy)'],
    setUps['iptables (nft)'],
  ];
  await underLoad([name], async () => {
    let before: ProxySetUp = setUps[name];
    for (const setUp of changes) {
      await world().stopKubeProxy(name);
      if (before.iptables !== setUp.iptables) await world().removeRules(name, before.iptables);
      await world().startKubeProxy(name, setUp);
      for (const family of families) expect(await whoDecides(name, family)).toBe('vipnat');
      before = setUp;
    }
  });
});
