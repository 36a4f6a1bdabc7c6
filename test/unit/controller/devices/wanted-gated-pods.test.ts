import { gateType } from '../../../../lib/api/vipnat.ts';
import { DeviceWorld } from '../../../support/fakes/device-world.ts';
import { afterEach, expect, test } from '@jest/globals';
import type { Pod } from '../../../../lib/api/endpoints.ts';
import { makeNode, makePod, nowMs } from '../../../support/fakes/service-objects.ts';
import { makeDevice, makeDeviceService, makeSlice } from '../../../support/fakes/device-objects.ts';
import { pod as podKind, timeoutMs } from '../../../../controller/kinds/pod-gate.ts';

const spec = { selector: { app: 'web' } };
let world: DeviceWorld;

afterEach(async () => {
  expect(await world.stop()).toEqual({ errors: [], pending: 0 });
});

/** A pod whose containers are ready, and whose gate is closed unless conditions say otherwise. */
function makeGated(conditions: Readonly<Record<string, string>> = {}): Pod {
  return makePod('apps/p', {
    status: {
      podIP: '10.1.0.3',
      podIPs: [{ ip: '10.1.0.3' }],
      conditions: Object.entries({ ContainersReady: 'True', ...conditions }).map(([type, status]) => {
        return { type, status, lastTransitionTime: new Date(nowMs - 60_000).toISOString() };
      }),
    },
  });
}

function start(targets: string): void {
  world = new DeviceWorld({
    devices: [makeDevice('d', { targets })],
    services: [makeDeviceService('apps/a', 'd', { spec })],
    endpointSlices: [makeSlice('apps/a', ['10.1.0.1', '!10.1.0.3'])],
    pods: [makeGated()],
    nodes: [makeNode('w1')],
  });
}

/** What the gate does: the reason by which it opens, or `wait`. */
function readGate(waitedMs = 0): string {
  const step = podKind.next('apps/p', { ...world.cache.view(nowMs), waitedMs });
  if (step.does !== 'write') return step.does;
  const { status } = step.write.body as { status: { conditions: [{ reason: string; message: string }] } };
  return `${status.conditions[0].reason}: ${status.conditions[0].message}`;
}

test('a gate opens when the device has the pod, which stays there until Kubernetes calls it ready', async () => {
  start('pods');
  world.device.runs = 4;
  await world.clock.advance(1000);
  expect(readGate()).toBe('wait');
  await world.clock.advance(2000);
  expect(world.device.listMembers()).toEqual(['10.1.0.1 1', '10.1.0.3 1']);
  expect(readGate()).toBe('LBHealthy: LB synced successfully');
  world.takeCalls();
  world.put('pods', makeGated({ [gateType]: 'True' }));
  await world.clock.advance(1000);
  world.put('endpointSlices', makeSlice('apps/a', ['10.1.0.1', '10.1.0.3']));
  await world.clock.advance(1000);
  expect(world.takeCalls()).toEqual([]);
});

test.each<[string, 'pods' | 'nodes', () => never]>([
  ['whose containers fail before that', 'pods', () => makeGated({ ContainersReady: 'False' }) as never],
  ['whose node dies before that', 'nodes', () => makeNode('w1', {}, undefined, 'Unknown') as never],
  ['whose node died later', 'pods', () => makeGated({ [gateType]: 'True', Ready: 'False' }) as never],
])('a pod %s gets nothing any more', async (_, source, make) => {
  start('pods');
  await world.clock.advance(1000);
  expect(world.device.listMembers()).toEqual(['10.1.0.1 1', '10.1.0.3 1']);
  world.put(source, make());
  await world.clock.advance(1000);
  expect(world.device.listMembers()).toEqual(['10.1.0.1 1', '10.1.0.3 0']);
  expect(world.find('apps/a')?.gated).toEqual([]);
});

test('a gate waits for a pod that no EndpointSlice has, and for a device that fails, for three minutes at most', async () => {
  start('pods');
  world.put('endpointSlices', makeSlice('apps/a', ['10.1.0.1']));
  await world.clock.advance(1000);
  expect(readGate()).toBe('wait');
  world.device.chooseEnd = () => 'never sent';
  world.put('endpointSlices', makeSlice('apps/a', ['10.1.0.1', '!10.1.0.3']));
  await world.clock.advance(60_000);
  expect(readGate()).toBe('wait');
  expect(readGate(timeoutMs)).toBe(
    'Timeout: After 3 minutes the gate opens, although the device d does not send connections to the pod yet.',
  );
});

test('a gate does not wait for ports of nodes, a device that is not there, and a Service that is refused', () => {
  start('nodePorts');
  expect(readGate()).toMatch(/^NodePorts: /);
  const conditions = [{ type: 'vipnat.io/AddressReady', status: 'False', reason: 'NoFreeAddress' }];
  world.put('services', makeDeviceService('apps/a', 'd', { spec, status: { conditions } }));
  expect(readGate()).toMatch(/^NoService: /);
  world.put('services', makeDeviceService('apps/a', 'd', { spec }));
  expect(readGate()).toMatch(/^NodePorts: /);
  world.remove('devices', 'd');
  expect(readGate()).toMatch(/^NoService: /);
});
