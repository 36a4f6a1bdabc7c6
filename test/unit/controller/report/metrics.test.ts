import { controllerMetrics, type ControllerState } from '../../../../controller/report/metrics.ts';
import { listStateSamples } from '../../../../lib/telemetry/metrics.ts';
import { test, expect } from '@jest/globals';
import { controllerState } from '../../../support/fakes/metric-states.ts';

function list(parts: Partial<ControllerState> = {}) {
  return listStateSamples(controllerMetrics, { ...controllerState, ...parts }).map(
    ({ name, labels, value }) => {
      const text = Object.entries(labels).map(([label, word]) => `${label}=${word}`);
      return `${name.replace('vipnat_controller_', '')}{${text.join()}} ${value}`;
    },
  );
}

test('a controller that leads says how its queue, its pools and its Services do', () => {
  expect(list().filter((line) => !line.startsWith('device_'))).toEqual([
    ...['leading{} 1', 'queue_depth{} 1', 'queue_longest_wait_seconds{} 1.5', 'queue_delayed{} 2'],
    ...['retries_total{} 4', 'steps_total{} 9', 'virtual_ips{state=used} 1', 'virtual_ips{state=released} 1'],
    ...['pool_addresses{pool=pool,family=ipv4} 2', 'pool_addresses{pool=pool,family=ipv6} 4'],
    ...['pool_addresses_given{pool=pool,family=ipv4} 1', 'pool_addresses_given{pool=pool,family=ipv6} 0'],
    ...['services_waiting{} 1', 'gates_waiting{} 1', 'nodes_living{} 0'],
  ]);
});

test('objects that cannot be read are named', () => {
  expect(list({ unreadable: [{ kind: 'Service', object: 'shop/odd' }] })).toContain(
    'object_unreadable{kind=Service,object=shop/odd} 1',
  );
});

test('one with a webhook says how that does, whether it leads or not', () => {
  const webhook = { isServing: true, untilMs: 90_000, isTrusted: false, answers: new Map() };
  const own = (parts: object) =>
    list({ isLeading: false, view: null, statistics: null, webhook: { ...webhook, ...parts } });
  expect(own({ answers: new Map([['patched', 2]]) })).toEqual([
    ...['leading{} 0', 'admissions_total{result=patched} 2', 'webhook_serving{} 1'],
    ...['webhook_certificate_end_timestamp_seconds{} 90', 'webhook_trusted{} 0'],
  ]);
  expect(own({ isServing: false, untilMs: null, isTrusted: null })).toEqual([
    'leading{} 0',
    'webhook_serving{} 0',
  ]);
});

test('a device says whether its units could take over, what waits there, and what drains', () => {
  expect(list().filter((line) => line.startsWith('device_'))).toEqual([
    ...['device_ready{device=edge} 0', 'device_ready{device=new} 0', 'device_balancers{device=edge} 2'],
    ...['device_balancers{device=new} 0', 'device_balancers_failing{device=edge} 0'],
    ...['device_balancers_failing{device=new} 0', 'device_unit_in_sync{device=edge,unit=a} 1'],
    ...['device_unit_in_sync{device=edge,unit=b} 0', 'device_unit_in_sync{device=edge,unit=c} 0'],
    ...['device_foreign_changes{device=edge} 1', 'device_foreign_changes{device=new} 0'],
    ...['device_members_draining{device=edge} 1', 'device_members_draining{device=new} 0'],
    ...['device_requests_total{device=edge} 7', 'device_requests_total{device=new} 0'],
  ]);
});
