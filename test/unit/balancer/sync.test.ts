/** The balancer as a whole: an API on a local socket, a kernel in memory, and a clock that stands still. */
import { eventually } from '../../support/api/api-world.ts';
import { useBalancerWorld } from '../../support/api/balancer-world.ts';
import { describe, test, expect } from '@jest/globals';
import { VipnatError } from '../../../lib/errors.ts';
import { sleep } from '../../../lib/clock.ts';
import { makeLoadBalancer } from '../../support/kube-api/service-objects.ts';

const world = useBalancerWorld(async () => {
  world().startBalancer();
  await world().untilPrinted(/10\.77\.0\.61[\s\S]*10\.244\.2\.2|10\.244\.2\.2[\s\S]*10\.77\.0\.61/);
});

describe('a balancer', () => {
  test('leaves others time to list their rules while endpoints flap, and writes the last change', async () => {
    // The first count of a life was of no rules.
    world().ruleCount = 20_000;
    await world().pass(31);
    const writtenAt: number[] = [];
    for (let round = 0; round < 300; round += 1) {
      const before = world().kernel.scripts.length;
      world().list('web', `10.244.${1 + (round % 200)}.2`);
      await world().pass(0.02, 20);
      if (world().listScripts(before, '10.244.').length > 0) writtenAt.push(world().clock.now());
    }
    const pauses = writtenAt.slice(1).map((at, index) => at - (writtenAt[index] ?? 0));
    expect(pauses.filter((pause) => pause >= 780).length).toBeGreaterThanOrEqual(2);
    expect(Math.max(...pauses)).toBeLessThan(1500);
    await world().untilPrinted(/10\.244\.100\.2/);
  });

  test.each([
    ['with one of policy Local', 'Local', true, 'none'],
    ['where no kube-proxy runs', 'Cluster', false, 'none'],
    ['with a kube-proxy that serves all', 'Cluster', true, 'kube-proxy'],
  ])('says of a table that has run out, %s', async (_, policy, hasKubeProxy, mode) => {
    world().hasKubeProxy = hasKubeProxy;
    const spec = { externalTrafficPolicy: policy };
    world().api.store.put('Service', makeLoadBalancer('web', [{ port: 80 }], { spec }));
    await world().pass(1);
    const apply = world().kernel.apply.bind(world().kernel);
    world().kernel.apply = () => Promise.reject(new VipnatError('TOOL_FAILED', 'nft is not well'));
    await world().pass(29);
    expect(world().view?.mode).toBe('direct');
    await world().pass(91);
    expect(world().view?.mode).toBe(mode);
    world().kernel.apply = apply;
    await world().pass(20);
    expect(world().view?.mode).toBe('direct');
  });

  test('writes a table again that somebody has deleted, also while a refused Service changes all the time', async () => {
    world().kernel.refuses = /10\.244\.66\./;
    world().list('web', '10.244.66.6');
    await world().until(() => world().view?.left.has('default/web') === true, 'web is refused');
    await world().kernel.meddle('delete table ip vipnat-lb\n');
    world().noteGeneration();
    for (let round = 0; round < 20; round += 1) {
      world().list('web', `10.244.66.${round + 10}`);
      await world().pass(0.05, 50);
    }
    expect(await world().print()).toContain('10.77.0.61');
    expect(world().readLog()).toContain(
      'another program removed or replaced a table of vipnat: vipnat writes it again',
    );
  });

  test('goes on with all others when nft refuses one Service, and says which', async () => {
    world().kernel.refuses = /10\.244\.66\.6/;
    world().list('web', '10.244.66.6');
    world().list('other', '10.244.3.3');
    await world().untilPrinted(/10\.244\.3\.3/);
    await world().pass(100);
    expect(await world().print()).not.toContain('default/web');
    expect(world().view?.mode).toBe('direct');
    expect([...(world().view?.left ?? [])]).toEqual([['default/web', 'nft does not take 10.244.66.6']]);
    expect(world().readLog('error')).toEqual([expect.stringContaining('leaves default/web to kube-proxy')]);
    world().kernel.refuses = null;
    await world().pass(60);
    expect(await world().print()).toContain('10.244.66.6');
    expect(world().view?.left.size).toBe(0);
  });

  test('forgets a refused Service that is gone, and has its address for the next one alone', async () => {
    world().kernel.refuses = /10\.244\.66\./;
    world().list('web', '10.244.66.6');
    await world().until(() => world().view?.left.has('default/web') === true, 'web is refused');
    world().api.store.remove('Service', 'web');
    world().addService('next', '10.77.0.60');
    await world().untilPrinted(/10\.77\.0\.60 [^:]*: goto lb\/default\/next/);
    const { questions } = world().kernel;
    world().kernel.refuses = null;
    await world().pass(130);
    expect(await world().print()).not.toContain('default/web');
    expect([world().view?.left.size, world().kernel.questions]).toEqual([0, questions]);
  });

  test('knows a Service that it has taken again while the tables could not be compared', async () => {
    world().kernel.refuses = /10\.244\.66\./;
    world().list('web', '10.244.66.6');
    await world().pass(480, 2000);
    // Now it is due to be tried again, and so are tables to be compared.
    world().kernel.refuses = null;
    world().kernel.listTable = () => Promise.reject(new VipnatError('TOOL_FAILED', 'nft lists nothing'));
    world().clock.stall(130_000);
    await world().pass(1);
    Reflect.deleteProperty(world().kernel, 'listTable');
    await world().pass(15);
    expect(await world().print()).toContain('10.244.66.6');
    expect(world().readLog().join()).toMatch(/web is balanced: .* TCP to 1 endpoint,.*nft lists nothing/);
  });

  test('has its tables count while it looks for a Service that nft refuses, however long nft takes', async () => {
    const { kernel } = world();
    const [check, apply] = [kernel.check.bind(kernel), kernel.apply.bind(kernel)];
    const renewedAt = [world().clock.now()];
    world().kernel.check = async (script) => {
      await sleep(world().clock, 9000);
      return await check(script);
    };
    world().kernel.apply = async (script) => {
      if (script.includes('vipnat-lb alive')) renewedAt.push(world().clock.now());
      await apply(script);
    };
    world().kernel.refuses = /10\.244\.66\.6/;
    world().list('other', '10.244.3.3');
    world().list('web', '10.244.66.6');
    await world().pass(100);
    expect([...(world().view?.left.keys() ?? [])]).toEqual(['default/web']);
    const gaps = renewedAt.slice(1).map((at, index) => at - (renewedAt[index] ?? 0));
    world().kernel.check = check;
    await world().pass(10);
    expect(Math.max(...gaps)).toBeLessThan(30_000);
  });

  test('leaves a Service to kube-proxy whose rules need what the kernel lacks, says why, and takes it when it is there', async () => {
    await world().stopBalancer();
    world().kernel.missing = { ipv4: ['verdict map'], ipv6: [] };
    const spec = { sessionAffinity: 'ClientIP' };
    world().api.store.put('Service', makeLoadBalancer('web', [{ port: 80 }], { spec }));
    world().startBalancer();
    await world().until(async () => !(await world().print()).includes('default/web'), "web is kube-proxy's");
    expect(await world().print()).toContain('default/other');
    expect(world().view?.left.get('default/web')).toContain('this nft cannot read its own maps of verdicts');
    world().kernel.missing = { ipv4: [], ipv6: [] };
    await world().pass(610, 5000);
    expect([(await world().print()).includes('default/web'), world().view?.left.size]).toEqual([true, 0]);
  });

  test('leaves connections to kube-proxy when nft fails for long, says so, and takes them back', async () => {
    world().hang = Promise.reject(new Error('nft: no space'));
    world().hang.catch(() => undefined);
    world().list('web', '10.244.9.9');
    await world().pass(100);
    expect(world().view?.mode).toBe('kube-proxy');
    expect(world().readLog(undefined, 'lets its table run out')).toHaveLength(1);
    world().hang = Promise.resolve();
    await world().untilPrinted(/10\.244\.9\.9/);
    await eventually('it says so', () => world().view?.mode === 'direct');
  });
});

describe('a balancer of many Services', () => {
  const world = useBalancerWorld();

  test('gives the oldest Services the memories that a node can have, and takes none away, also after a restart', async () => {
    const put = (name: string, year: number, count: number, externalTrafficPolicy = 'Cluster') => {
      const ports = Array.from({ length: count }, (_, at) => ({ port: at + 1 }));
      const spec = { sessionAffinity: 'ClientIP', externalTrafficPolicy };
      const object = makeLoadBalancer(name, ports, { spec });
      world().addService(name, `10.77.0.${year - 1900}`);
      const metadata = { ...object.metadata, creationTimestamp: `${year}-01-01T00:00:00Z` };
      world().api.store.put('Service', { ...object, metadata });
    };
    const served = async () => {
      const names = [...(await world().print()).matchAll(/map clients\/default\/(\w+)\//g)];
      const counts = Map.groupBy(names, ([, name = '']) => name);
      return Object.fromEntries([...counts].map(([name, { length }]) => [name, length] as const));
    };
    const left = () => [...(world().view?.left.keys() ?? [])];
    put('c', 2013, 200);
    put('b', 2012, 150);
    put('a', 2011, 300);
    world().startBalancer();
    await world().pass(2);
    expect([await served(), left()]).toEqual([{ a: 300, b: 150 }, ['default/c']]);
    expect(world().view?.left.get('default/c')).toMatch(/older Services have the 500 memories/);
    world().api.store.remove('Service', 'b');
    await world().until(async () => (await served())['c'] === 200, 'c gets what b had');
    expect([await served(), left()]).toEqual([{ a: 300, c: 200 }, []]);
    put('z', 2010, 1);
    put('c', 2013, 201);
    for (const isAgain of [false, true]) {
      if (isAgain) await world().stopBalancer().then(world().startBalancer.bind(world()));
      await world().pass(2);
      expect([await served(), left()]).toEqual([{ a: 300, c: 200 }, ['default/z']]);
    }
    expect(world().readLog('warn').join()).toMatch(/leaves 1 new ports of default\/c to kube-proxy/);
    put('a', 2011, 300, 'Local');
    await world().until(async () => (await served())['z'] === 1, 'the ports of a ask for more, and get none');
  });
});
