import { describe, expect, test } from '@jest/globals';
import { type NodeReport } from '../../../../lib/services/node-report.ts';
import {
  makeNode,
  makePool,
  makeReport,
  makeService,
  makeVirtualIp,
  publish,
} from '../../../support/fakes/service-objects.ts';
import { decide, getWrite } from '../../../support/fakes/service-steps.ts';

describe('an address that nodes cannot hold', () => {
  const why = '10.0.9.10 is in no subnet of this host (it has eth0)';
  const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'])];
  const nodes = [makeNode('node-1'), makeNode('node-2')];
  const makeSeated = (...names: string[]) => {
    const seats = [{ index: 0, anchors: ['10.0.9.10'], nodes: names }];
    return [makePool('pool', { addresses: ['10.0.9.10'] }, { status: { seats } })];
  };
  const look = (reports: NodeReport[], status = {}, pools = makeSeated('node-1', 'node-2')) =>
    getWrite(decide({ services: [makeService('apps/a', { status })], virtualIps, nodes, pools, reports }));
  const able = makeReport('node-2', 20);

  test.each(['pool/0', '10.0.9.10'])('is not published, by what nodes say of %s', (name) => {
    const unable = ['node-2', 'node-1'].map((node) => makeReport(node, 20, { unheld: { [name]: why } }));
    expect(look(unable).body).toMatchObject({
      status: {
        loadBalancer: { ingress: null },
        conditions: [
          {
            ...{ status: 'False', reason: 'CannotBeHeld' },
            message: `No node can hold 10.0.9.10. node-1: ${why}, node-2: ${why}.`,
          },
        ],
      },
    });
  });

  test('is published where one of them can, or what they cannot hold is another', () => {
    const unheld = { 'pool/0': why };
    const published = { status: { loadBalancer: { ingress: [{ ip: '10.0.9.10' }] } } };
    expect(look([makeReport('node-1', 20, { unheld }), able]).body).toMatchObject(published);
    const others = { 'pool/1': why, '10.0.9.11': why };
    expect(look([makeReport('node-1', 20, { unheld: others })]).body).toMatchObject(published);
  });

  test('is not published where the one that could may not hold it', () => {
    const unheld = { 'pool/0': why };
    const body = look([makeReport('node-1', 20, { unheld }), able], {}, makeSeated('node-1')).body;
    expect(body).toMatchObject({ status: { conditions: [{ reason: 'CannotBeHeld' }] } });
  });

  test('and is published stays so, and the condition says it', () => {
    const unheld = { 'pool/0': why };
    const body = look([makeReport('node-1', 20, { unheld })], publish('10.0.9.10')).body;
    expect(body).toMatchObject({
      status: {
        loadBalancer: { ingress: [{ ip: '10.0.9.10' }] },
        conditions: [{ status: 'False', reason: 'CannotBeHeld' }],
      },
    });
  });
});

describe('an address whose VirtualIP names a pool that does not exist', () => {
  const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'], { spec: { pool: 'typo' } })];
  const services = (status = {}) => [makeService('apps/a', { status, spec: named })];
  const named = { loadBalancerIP: '10.0.9.10' };
  const look = (status = {}) => {
    const pools = [makePool('pool', { addresses: ['10.0.9.10'] })];
    const nodes = [makeNode('node-1')];
    const reports = [makeReport('node-1', 20)];
    return decide({ services: services(status), virtualIps, pools, nodes, reports });
  };
  const why = 'No node answers for 10.0.9.10: its AddressPool typo does not exist.';
  const conditions = [{ status: 'False', reason: 'PoolGone', message: why }];

  test('stays published, is not ready, and an event says it', () => {
    const step = look(publish('10.0.9.10'));
    const status = { loadBalancer: { ingress: [{ ip: '10.0.9.10' }] }, conditions };
    expect(getWrite(step).body).toMatchObject({ status });
    expect(step).toMatchObject({ event: { type: 'Warning', reason: 'NoAddress', message: why } });
  });

  test('is said to lack its pool where it was asked for and not published yet', () => {
    expect(getWrite(look()).body).toMatchObject({ status: { loadBalancer: { ingress: null }, conditions } });
  });
});
