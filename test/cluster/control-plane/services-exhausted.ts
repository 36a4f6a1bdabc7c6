import { expect, test } from '@jest/globals';
import { type KubernetesObject } from '../../support/manifest/printing.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { type ServicesWorld, stepsMs } from './services-world.ts';

const eventsPath = '/apis/events.k8s.io/v1/namespaces/default/events';

/** Tests of a pool that has no address left. */
export function testExhaustion(world: () => ServicesWorld): void {
  test('a Service waits while a pool is exhausted, says so in a condition and an event, and is served when an address is free', async () => {
    await world().create({
      apiVersion: 'vipnat.io/v1alpha1',
      kind: 'AddressPool',
      metadata: { name: 'single' } as KubernetesObject['metadata'],
      spec: { addresses: ['10.0.8.20'], autoAssign: false, reuseAfter: '1s' },
    });
    const own = { 'vipnat.io/pool': 'single' };
    await world().createService('first', {}, own);
    expect(await world().awaitAddresses('first')).toEqual(['10.0.8.20']);
    await world().createService('second', {}, own);
    const findReason = async () => (await world().readService('second'))?.status.conditions?.[0]?.reason;
    await waitFor(async () => (await findReason()) === 'PoolExhausted', stepsMs);
    expect(await world().readAddresses('second')).toEqual([]);
    const hasEvent = async () => {
      const { object } = await world().api.ask({ method: 'GET', path: eventsPath });
      const items = object['items'] as readonly { reason: string; regarding: { name: string } }[];
      return items.some(({ reason, regarding }) => reason === 'NoAddress' && regarding.name === 'second');
    };
    await waitFor(hasEvent, stepsMs);
    await world().remove('first');
    expect(await world().awaitAddresses('second')).toEqual(['10.0.8.20']);
    await world().remove('second');
    await world().removePool('single');
  });
}
