import { describe, test, expect } from '@jest/globals';
import type { EndpointWords } from '../../support/kube-api/service-objects.ts';
import { balance, on, last, local } from '../../support/fakes/balanced-port.ts';

describe('pods that end', () => {
  test('get no new connections: they drain', () => {
    const drained = (endpoints: readonly EndpointWords[], spec = {}) =>
      balance(endpoints, spec).port?.draining.map(({ address }) => address);
    const [ready, ends] = [on('n2', '10.244.2.2'), on('n1', '10.244.1.2', last)];
    expect(drained([ready, ends, on('n1', '10.244.1.3', { ready: false })])).toEqual(['10.244.1.2']);
    // Also those who do not answer any more.
    expect(drained([ready, on('n1', '10.244.1.2', { ...last, serving: false })])).toEqual(['10.244.1.2']);
    // Who serves because nobody else is there does not drain.
    expect(drained([ends])).toEqual([]);
    // Connections are translated on the pod's own node, where it may be the last one.
    expect(drained([ready, ends], local)).toEqual([]);
    expect(drained([ready, ends, on('n1', '10.244.1.4')], local)).toEqual(['10.244.1.2']);
    expect(drained([on('n1', '10.244.1.4'), on('n2', '10.244.2.2', last)], local)).toEqual([]);
  });

  test.each([
    ['30s', 30_000, []],
    ['1m30s', 90_000, []],
    ['0s', 0, []],
    [
      'soon',
      null,
      [
        'default/web asks for the drain timeout soon, which is not a duration: open connections stay until their pod is gone',
      ],
    ],
  ])('a drain timeout of %s', (text, drainMs, remarks) => {
    const balanced = balance([on('n1', '10.244.1.2')], {}, { 'vipnat.io/drain-timeout': text });
    expect([balanced.port?.drainMs, balanced.remarks]).toEqual([drainMs, remarks]);
  });
});

describe('weights', () => {
  const pods = ['1', '2', '3'].map((last) => on('n1', `10.244.1.${last}`));
  const weigh = (weights: readonly number[], endpoints: readonly EndpointWords[] = pods, spec = {}) =>
    balance(
      endpoints,
      spec,
      {},
      {
        weights: new Map(weights.map((weight, at) => [`10.244.1.${at + 1}`, weight])),
      },
    );

  test('go with the endpoints; who has none gets no connection, and drains', () => {
    const { port } = weigh([3, 0]);
    expect(port?.backends.map(({ address, weight }) => [address, weight])).toEqual([
      ['10.244.1.1', 3],
      ['10.244.1.3', 1],
    ]);
    expect(port?.draining.map(({ address }) => address)).toEqual(['10.244.1.2']);
  });

  test('of 0 for all who are ready have them all serve', () => {
    const ends = {
      addresses: ['10.244.1.4'],
      conditions: { ready: false, serving: true, terminating: true },
    };
    expect(weigh([0, 0, 0], [...pods, ends])).toMatchObject({
      addresses: ['10.244.1.1', '10.244.1.2', '10.244.1.3'],
      port: { draining: [{ address: '10.244.1.4' }] },
    });
  });

  test('count where a node with policy Local sends on', () => {
    const elsewhere = on('n2', '10.244.1.4');
    expect(weigh([2, 0, 1], [...pods, elsewhere], local).port?.relay?.weights).toEqual(
      new Map([
        ['10.244.1.1 . 8080', 2],
        ['10.244.1.3 . 8080', 1],
        ['10.244.1.4 . 8080', 1],
      ]),
    );
  });
});
