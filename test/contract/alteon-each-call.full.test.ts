/** A change of an Alteon, with something in the way at each of its calls in turn. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { type AlteonConfiguration } from '../support/devices/alteon-configuration.ts';
import {
  type AlteonWorld,
  done,
  signal,
  startWorld,
  stopWorlds,
  toBalancer,
  toListener,
} from '../support/devices/alteon-world.ts';

afterEach(stopWorlds);

/** From a balancer to another one: each kind of step is in it. */
const before = toBalancer(['10.1.0.1:8080', '10.1.0.2:8080', '10.1.0.3:8080'], {
  listeners: [
    toListener('tcp 443', ['10.1.0.1:8080', '10.1.0.2:8080', '10.1.0.3:8080']),
    toListener('udp 53', ['10.1.0.1:5353']),
  ],
});
const after = toBalancer([], {
  listeners: [
    toListener('tcp 443', ['10.1.0.1:8080=0', '10.1.0.2:8080=2', '10.1.0.4:8080']),
    toListener('tcp 80', ['10.1.0.4:8080']),
  ],
});
const afterServed = [
  { listener: 'tcp 192.0.2.1:443', members: ['10.1.0.1:8080=0', '10.1.0.2:8080=2', '10.1.0.4:8080=1'] },
  { listener: 'tcp 192.0.2.1:80', members: ['10.1.0.4:8080=1'] },
];

let configuration: AlteonConfiguration | null = null;

async function startAt(): Promise<AlteonWorld> {
  const world = await startWorld();
  if (configuration === null) {
    await world.ensure(before);
    configuration = world.device.activeUnit.running;
    world.device.calls.length = 0;
  }
  for (const unit of world.device.units) unit.receive(configuration);
  return world;
}

const isHalf = (world: AlteonWorld, unit: number) => {
  const served = world.device.readServed(world.device.units[unit]).map(({ listener }) => listener);
  return !['tcp 192.0.2.1:443,udp 192.0.2.1:53', 'tcp 192.0.2.1:443,tcp 192.0.2.1:80'].includes(
    served.join(),
  );
};

/** Lets it happen at each call in turn, and looks at what is served in the end. */
async function atEachCall(
  happen: (device: AlteonWorld['device']) => void,
  look: (world: AlteonWorld, at: number) => Promise<void> | void = () => undefined,
): Promise<void> {
  const undisturbed = await startAt();
  await undisturbed.ensure(after);
  const calls = undisturbed.device.calls.length;
  expect(calls).toBeGreaterThan(40);
  for (let at = 1; at <= calls; at += 1) {
    const world = await startAt();
    world.device.onCall = (_call, count) => {
      if (count === at) happen(world.device);
    };
    // A switch in the very moment in which units are asked looks like two active ones, or none: that is for the next call.
    const progress = await world.ensure(after);
    if (progress.result !== 'done') expect({ at, ...(await world.ensure(after)) }).toEqual({ at, ...done });
    await look(world, at);
    expect({ at, served: world.device.readServed() }).toEqual({ at, served: afterServed });
    await stopWorlds();
  }
}

describe('at each call of a change in turn', () => {
  test('the roles switch: what is done is at the active unit, whole, and nothing waits anywhere', () =>
    atEachCall(
      (device) => {
        device.switchRoles();
      },
      (world, at) => {
        world.device.settle();
        expect([at, isHalf(world, 0), isHalf(world, 1)]).toEqual([at, false, false]);
        expect(world.device.units.map((unit) => unit.readText('getdiff'))).toEqual(['', '']);
      },
    ));

  test.each(['revert', 'applyNow'] as const)('after %s by another user what is done stays', (act) =>
    atEachCall(
      (device) => {
        device.activeUnit[act]();
      },
      async ({ device, driver }) => {
        device.activeUnit.restart();
        expect(await driver.list(signal)).toMatchObject([{ balancer: after }]);
      },
    ),
  );

  test('the active unit dies and its standby takes over: the next call is done there', () =>
    atEachCall((device) => {
      device.unresponsive.add(0);
      device.switchRoles();
    }));
});
