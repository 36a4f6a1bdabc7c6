/** The balancer as a whole: an API on a local socket, a kernel in memory, and a clock that stands still. */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { Balancer } from '../../../../balancer/process/balancer.ts';
import { BalancerCounter } from '../../../../balancer/report/balancer-counts.ts';
import { type BalancerView } from '../../../../balancer/process/ports.ts';
import { type BalancerKernel } from '../../../../lib/kernel/real/balancer-tables.ts';
import { ApiRoute } from '../../../../lib/kubernetes/route.ts';
import { accessByVip, eventually, useCertificates } from '../../../support/api/api-world.ts';
import { FakeBalancerKernel } from '../../../support/fakes/balancer-kernel.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { createRecordingLogger, type RecordingLogger } from '../../../support/fakes/logger.ts';
import { KubeApi } from '../../../support/kube-api/kube-api.ts';
import { makeEndpoints, makeLoadBalancer, makeVirtualIp } from '../../../support/kube-api/service-objects.ts';
import { serviceQuestions } from '../../../support/kube-api/service-questions.ts';

const certificates = useCertificates();

let api: KubeApi;
let kernel: FakeBalancerKernel;
let clock: FakeClock;
let logger: RecordingLogger;
let balancer: Balancer;
let view: BalancerView | null;
let addresses: string[];
/** How often the balancer listed a table. */
let lists: number;
/** Rules that others have. */
let ruleCount: number;
let noteGeneration: () => void;
/** For as long as this is not resolved, nft hangs. */
let hang: Promise<void>;

const list = (name: string, ...pods: readonly string[]) => {
  api.store.put('EndpointSlice', makeEndpoints(name, [{ port: 8080 }], pods));
};

const addService = (name: string, address: string) => {
  api.store.put('Service', makeLoadBalancer(name, [{ port: 80 }]));
  list(name, '10.244.1.2', '10.244.2.2');
  api.store.put('VirtualIP', makeVirtualIp(address, [name]));
};

/** Goes on in steps, with time for sockets in between. */
async function pass(seconds: number, stepMs = 500): Promise<void> {
  for (let at = 0; at < seconds * 1000; at += stepMs) {
    await clock.advance(stepMs);
    await new Promise(setImmediate);
  }
}

const print = () => kernel.listTable('ip vipnat-lb');

/** Until the kernel has this. */
async function untilPrinted(pattern: RegExp): Promise<void> {
  for (let left = 400; left > 0; left -= 1) {
    if (pattern.test(await print())) return;
    await clock.advance(50);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`never printed: ${pattern.source}\n${await print()}`);
}

beforeEach(async () => {
  api = await KubeApi.start({ pair: certificates().serving('m1'), questions: serviceQuestions });
  api.allowsAll = true;
  [kernel, clock, logger] = [new FakeBalancerKernel(), new FakeClock(), createRecordingLogger()];
  [view, addresses, hang, lists] = [null, ['10.77.0.11'], Promise.resolve(), 0];
  ruleCount = 0;
  addService('web', '10.77.0.60');
  addService('other', '10.77.0.61');
  const route = new ApiRoute(() => Promise.resolve(accessByVip(certificates().authority)), []);
  route.setServers({ endpoints: [toEndpoint(`127.0.0.1:${api.port}`)], localAddresses: new Set() });
  const whole: BalancerKernel = {
    listTable: (table) => {
      lists += 1;
      return kernel.listTable(table);
    },
    readHandles: (name) => kernel.readHandles(name),
    countRules: () => Promise.resolve(ruleCount),
    apply: async (script) => {
      await hang;
      await kernel.apply(script);
    },
    changeElements: async (changes) => {
      await hang;
      return await kernel.changeElements(changes);
    },
    forgetFlows: () => Promise.resolve([]),
    listForwardChains: () => Promise.resolve([]),
    readFilter: () => Promise.resolve(null),
    restore: () => Promise.resolve(),
    watchGeneration: ({ onChange }) => {
      noteGeneration = onChange;
      return { ready: Promise.resolve(), stop: () => Promise.resolve() };
    },
  };
  balancer = new Balancer({
    ...{ route, clock, logger, kernel: whole, node: 'n1', random: () => 0 },
    readAddresses: () =>
      Promise.resolve(addresses.map((address) => ({ family: 'ipv4', address, device: 'eth0' }))),
    listener: { changed: (now) => (view = now) },
    observer: new BalancerCounter(() => undefined),
  });
  balancer.start();
  await untilPrinted(/10\.77\.0\.61[\s\S]*10\.244\.2\.2|10\.244\.2\.2[\s\S]*10\.77\.0\.61/);
});

afterEach(async () => {
  const stopped = balancer.stop();
  await pass(1);
  await stopped;
  await api.stop();
});

describe('a balancer', () => {
  test('serves others while endpoints flap 50 times a second, with less than one write for each change', async () => {
    const before = [kernel.scripts.length, lists];
    for (let round = 0; round < 200; round += 1) {
      list('web', ...(round % 2 === 0 ? ['10.244.1.2'] : ['10.244.1.2', '10.244.2.2']));
      if (round === 100) list('other', '10.244.3.3');
      await clock.advance(20);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    await untilPrinted(/10\.244\.3\.3/);
    expect(kernel.scripts.length - (before[0] ?? 0)).toBeLessThan(2 * 200);
    expect(lists).toBe(before[1]);
  });

  test('leaves others time to list their rules while endpoints flap, and writes the last change', async () => {
    // The first count of a life was of no rules.
    ruleCount = 20_000;
    await pass(31);
    const writtenAt: number[] = [];
    for (let round = 0; round < 300; round += 1) {
      const before = kernel.scripts.length;
      list('web', `10.244.${1 + (round % 200)}.2`);
      await clock.advance(20);
      await new Promise((resolve) => setTimeout(resolve, 2));
      if (kernel.scripts.slice(before).some((script) => script.includes('10.244.')))
        writtenAt.push(clock.now());
    }
    const pauses = writtenAt.slice(1).map((at, index) => at - (writtenAt[index] ?? 0));
    expect(pauses.filter((pause) => pause >= 780).length).toBeGreaterThanOrEqual(2);
    expect(Math.max(...pauses)).toBeLessThan(1500);
    await untilPrinted(/10\.244\.100\.2/);
  });

  test('keeps its table while the API is away for ten minutes, and has it count', async () => {
    const table = await print();
    await api.stop();
    const before = kernel.scripts.length;
    await pass(600, 2000);
    expect(view?.mode).toBe('direct');
    expect(await print()).toBe(table);
    expect(kernel.scripts.length - before).toBeGreaterThanOrEqual(59);
    expect(logger.lines.filter(({ message }) => message.includes('keeps its tables'))).toHaveLength(1);
  });

  test('goes on after nft has hung for 20 seconds', async () => {
    let release: () => void = () => undefined;
    hang = new Promise((resolve) => (release = resolve));
    list('web', '10.244.9.9');
    await pass(20);
    expect(view?.mode).toBe('direct');
    release();
    await untilPrinted(/10\.244\.9\.9/);
  });

  test('writes a table again that somebody has deleted', async () => {
    await kernel.meddle('delete table ip vipnat-lb\n');
    noteGeneration();
    await untilPrinted(/10\.77\.0\.60/);
    expect(logger.lines.map(({ message }) => message)).toContain(
      'another program removed or replaced a table of vipnat: vipnat writes it again',
    );
  });

  test('sends nothing to an address that has become its own', async () => {
    expect(await print()).toContain('10.244.2.2');
    addresses = ['10.77.0.11', '10.244.2.2'];
    await pass(11);
    expect(await print()).not.toContain('10.244.2.2');
  });

  test('leaves connections to kube-proxy when nft fails for long, says so, and takes them back', async () => {
    hang = Promise.reject(new Error('nft: no space'));
    hang.catch(() => undefined);
    list('web', '10.244.9.9');
    await pass(100);
    expect(view?.mode).toBe('kube-proxy');
    expect(logger.lines.filter(({ message }) => message.includes('lets its table run out'))).toHaveLength(1);
    hang = Promise.resolve();
    await untilPrinted(/10\.244\.9\.9/);
    await eventually('it says so', () => view?.mode === 'direct');
  });
});
