/** What is true of Services beside each kube-proxy of a plan, while the balancers decide. */
import type { ProxiedNodes } from './proxied-nodes.ts';
import type { Family } from '../../../lib/net.ts';
import { outsider } from '../../support/network/layout.ts';
import { services, secondPort } from './proxied-services.ts';
import type { ProxiedPlan } from './proxied-plan.ts';
import { describe, test, expect } from '@jest/globals';

/** Of connections: enough for shares and to miss none of four pods by chance. */
const count = 60;

/** How long to wait where nothing shall answer. */
const lostMs = 1000;

/** Who answers the address of a node, by TCP. */
async function ask(
  world: ProxiedNodes,
  [name, family]: readonly [string, Family],
  port: number,
  place = outsider.name,
) {
  const { vips } = world.plan.nodeOf(name);
  const { apiservers, errors } = await world.seat(place).greet(vips[family], port, count);
  return { apiservers, errors: Object.keys(errors) };
}

/** Who answers it, by UDP: names with how often. */
async function askByUdp(
  world: ProxiedNodes,
  [name, family]: readonly [string, Family],
  port: number,
  limitMs?: number,
) {
  const answers = await world.askByUdp(world.plan.nodeOf(name).vips[family], port, count, limitMs);
  const names = answers.map((answer) => answer.split(' ')[0] ?? '');
  return Object.fromEntries([...new Set(names)].map((one) => [one, names.filter((it) => it === one).length]));
}

/** Whether all connections of one client go to one pod, as by the balancer's hash; kube-proxy does not know this wish. */
export async function whoDecides(world: ProxiedNodes, which: readonly [string, Family]): Promise<string> {
  const { apiservers, errors } = await ask(world, which, services.hash.port);
  if (errors.length > 0) return errors.join();
  return Object.keys(apiservers).length === 1 ? 'vipnat' : 'kube-proxy';
}

/** A test for each set-up, family and fact. */
export function testFacts(plan: ProxiedPlan, world: () => ProxiedNodes): void {
  const { podNames } = plan;
  const even = Object.fromEntries(podNames.map((pod) => [pod, count / podNames.length]));
  const { web, hash, kept, local, ranges, ending, nobody, 'one-ready': oneReady } = services;

  describe.each(plan.cases)('beside kube-proxy in mode %s, %s', (name, family) => {
    const node = plan.nodeOf(name);
    const which = [name, family] as const;

    test.each([
      ['outside', outsider.name],
      ['on the node', node.name],
      ['in a pod there, which is one of them', node.pod],
    ])('a client %s reaches all pods evenly', async (_, place) => {
      expect(await ask(world(), which, web.port, place)).toEqual({ apiservers: even, errors: [] });
    });

    test('packets of UDP reach all pods evenly, at each port of the Service', async () => {
      expect(await askByUdp(world(), which, web.port)).toEqual(even);
      const second = Object.fromEntries(Object.entries(even).map(([pod, share]) => [`${pod}-second`, share]));
      expect(await askByUdp(world(), which, secondPort)).toEqual(second);
    });

    test('a client keeps its pod, by affinity and by its hash', async () => {
      for (const { port } of [kept, hash]) {
        const { apiservers, errors } = await ask(world(), which, port);
        expect({ shares: Object.values(apiservers), errors }).toEqual({ shares: [count], errors: [] });
      }
    });

    test('with policy Local clients reach pods of all nodes, which see them', async () => {
      const seen = await world().seat(outsider.name).request(node.vips[family], local.port, count);
      expect(Object.keys(seen.apiservers).sort()).toEqual(podNames);
      expect(seen).toMatchObject({ errors: {}, from: { [outsider.addresses[family]]: count } });
      expect(Object.keys(await askByUdp(world(), which, local.port)).sort()).toEqual(podNames);
      const own = { apiservers: { [node.pod]: count }, errors: [] };
      expect(await ask(world(), which, local.port, node.name)).toEqual(own);
      expect(await ask(world(), which, local.port, node.pod)).toEqual(own);
    });

    test('source ranges let pods come, and nobody from outside', async () => {
      expect(await askByUdp(world(), which, ranges.port, lostMs)).toEqual({ lost: count });
      const { apiservers, errors } = await ask(world(), which, ranges.port, node.pod);
      expect({ names: Object.keys(apiservers).sort(), errors }).toEqual({ names: podNames, errors: [] });
    });

    test('pods that end serve while none is ready, and no longer when one is', async () => {
      const { apiservers, errors } = await ask(world(), which, ending.port);
      expect({ names: Object.keys(apiservers).sort(), errors }).toEqual({ names: podNames, errors: [] });
      const one = { apiservers: { [podNames[0] ?? '']: count }, errors: [] };
      expect(await ask(world(), which, oneReady.port)).toEqual(one);
    });

    test('without a pod connections are refused', async () => {
      expect(await ask(world(), which, nobody.port)).toEqual({ apiservers: {}, errors: ['ECONNREFUSED'] });
    });
  });
}
