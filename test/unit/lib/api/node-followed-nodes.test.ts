import { followedNodes } from '../../../../lib/api/node.ts';
import { test, expect } from '@jest/globals';

const parse = (conditions: unknown, labels?: object) =>
  followedNodes.schema.parse({
    metadata: { name: 'w1', resourceVersion: '1', labels },
    status: { conditions },
  });
const say = (type: string, status: string, message?: string) => [
  { type: 'MemoryPressure', status: 'False', message: 'kubelet has sufficient memory available' },
  { type, status, ...(message === undefined ? {} : { message }) },
];

test.each([
  // As kubelets of 1.36 write it, alone and with another reason.
  [say('Ready', 'False', 'node is shutting down'), 'shuts down'],
  [say('Ready', 'False', '[container runtime is down, node is shutting down]'), 'shuts down'],
  [say('GracefulNodeShutdownInProgress', 'True'), 'shuts down'],
  [say('DrainInProgress', 'True', 'by an administrator'), 'is being drained'],
  [say('MaintenanceInProgress', 'True'), 'is in maintenance'],
])('pods of a node get no new connection: %j', (conditions, ending) => {
  expect(parse(conditions).ending).toBe(ending);
});

test.each([
  // A kubelet that starts again, and one that is silent.
  [say('Ready', 'False', 'container runtime status check may not have completed yet')],
  [say('Ready', 'Unknown', 'Kubelet stopped posting node status.')],
  [say('Ready', 'True', 'kubelet is posting ready status')],
  [say('Ready', 'False')],
  [say('DrainInProgress', 'Unknown')],
  [say('GracefulNodeShutdownInProgress', 'False', 'node is shutting down')],
  [say('MaintenancePlanned', 'True')],
  [say('Drained', 'True')],
  [say('constructor', 'True')],
  [[]],
  [undefined],
])('a node stays: %j', (conditions) => {
  expect(parse(conditions).ending).toBeNull();
});

test('it is silent when its kubelet stopped posting', () => {
  expect(parse(say('Ready', 'Unknown', 'Kubelet stopped posting node status.')).isUnresponsive).toBe(true);
  expect(parse(say('Ready', 'False', 'node is shutting down')).isUnresponsive).toBe(false);
  expect(parse(undefined).isUnresponsive).toBe(false);
});

test('its zone is that of its label', () => {
  expect(parse([], { 'topology.kubernetes.io/zone': 'a', other: 'b' })).toMatchObject({ zone: 'a' });
  expect(parse([]).zone).toBeNull();
});
