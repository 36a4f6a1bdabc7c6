/** The conformance suite of drivers, on the driver for HAProxy and real units of it. */
import { jest, afterEach, test, expect } from '@jest/globals';
import { stopHaproxyWorlds, HaproxyWorld } from '../support/devices/haproxy-world.ts';
import { runSuite, nameChecks } from '../support/devices/run-suite.ts';
import type { ConformanceTarget } from '../../devices/conformance/bench.ts';
import type { HaproxyUnit } from '../support/devices/haproxy-unit.ts';
import { createHaproxy } from '../../devices/haproxy/driver.ts';

// Thousands of connections, and hundreds of starts.
jest.setTimeout(900_000);

afterEach(stopHaproxyWorlds);

test.each([1, 2] as const)('the suite is green with units: %j', async (count) => {
  const world = await HaproxyWorld.start(count);
  await world.serveSites();
  const results = await runSuite(toTarget(world));
  expect(results.filter(({ outcome }) => outcome === 'failed')).toEqual([]);
  const own = {
    1: 'whole-commit failover failover-remove',
    2: 'foreign-objects drain least-connections whole-commit restart',
  };
  expect(nameChecks(results, 'not run').join(' ')).toBe(
    `udp ${own[count]} lost-answer refusal pending-changes`,
  );
  for (const unit of world.units) expect(await unit.listObjects()).toEqual([]);
});

function toTarget(world: HaproxyWorld): ConformanceTarget {
  const { units, settings, sites, clock } = world;
  const [first, second] = units;
  if (first === undefined) throw new TypeError('there is no unit');
  const eachUnit = async (act: (unit: HaproxyUnit, at: number) => Promise<void> | void) => {
    for (const [at, unit] of units.entries()) await act(unit, at);
  };
  let active = 0;
  const tellRoles = () => eachUnit((unit, at) => unit.setRole(at === active ? 'active' : 'standby'));
  const startAll = async () => {
    await eachUnit((unit) => unit.start());
    await tellRoles();
  };
  const switchRole = async () => {
    active = 1 - active;
    await tellRoles();
  };
  const restart = async () => {
    await first.stop();
    await first.start();
  };
  return {
    clock,
    sites,
    open: (cluster, context, identity) => createHaproxy({ ...settings, cluster, identity }, context),
    actions: {
      listObjects: () => first.listObjects(),
      ...(second === undefined
        ? {
            restart,
            // Both units of a pair listen at the same addresses of this host.
            connect: (balancer, listener) => world.reach(balancer, listener),
            openSession: (balancer) => world.openSession(balancer),
            createForeign: async () => {
              await first.ask('add map vipnat-owners.map vipnat_rr_3 another-tool');
              await first.ask('set server vipnat_rr_3/s1 addr 192.0.2.9 port 9');
              const read = async () =>
                (await first.listObjects()).filter((line) => line.includes('vipnat_rr_3')).join();
              const remove = async () => {
                await first.ask('set server vipnat_rr_3/s1 addr 192.0.2.1 port 1');
                await first.ask('del map vipnat-owners.map vipnat_rr_3');
              };
              return { read, remove };
            },
          }
        : { switchRole }),
      forget: async () => {
        await eachUnit((unit) => unit.crash());
        await startAll();
      },
      disconnect: async () => {
        await eachUnit((unit) => unit.stop());
        return startAll;
      },
      holdAnswers: async () => {
        await eachUnit((unit) => {
          unit.signal('SIGSTOP');
        });
        return () =>
          eachUnit((unit) => {
            unit.signal('SIGCONT');
          });
      },
    },
  };
}
