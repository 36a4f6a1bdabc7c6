import { findPodSpec, print } from '../../../support/manifest/printing.ts';
import { test, expect, describe } from '@jest/globals';
import { heartbeatProbe } from '../../../../lib/telemetry/log.ts';

const envOf = async (...words: string[]) =>
  findPodSpec(await print([...words, '--vip', '10.0.0.50'])).containers[0]['env'];

const pod = (value: string) => ({ name: 'VIPNAT_POD', value });
const nodeName = { name: 'VIPNAT_NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } };

test("an agent with credentials, and no other, is told its node's name, which its events are about", async () => {
  expect(await envOf('daemonset')).toEqual([pod('daemonset'), nodeName]);
  expect(await envOf('static-pod')).toEqual([pod('static-pod')]);
  const kubeconfig = ['--kubeconfig', '/etc/kubernetes/vipnat.conf'];
  expect(await envOf('static-pod', ...kubeconfig)).toEqual([pod('static-pod'), nodeName]);
  expect(await envOf('static-pod', ...kubeconfig, '--node-name', 'm1')).toEqual([pod('static-pod')]);
});

const isAlive = { exec: { command: [...heartbeatProbe] } };

describe('the probes of a pod', () => {
  const readContainer = async (listen: string) =>
    findPodSpec(await print(['static-pod', '--vip', '10.0.0.50', '--listen', listen])).containers[0];

  test.each([
    ['127.0.0.1:10268', { host: '127.0.0.1', port: 10_268 }],
    ['0.0.0.0:9000', { host: '127.0.0.1', port: 9000 }],
    ['[::]:9000', { host: '::1', port: 9000 }],
    ['10.0.0.11:9000', { host: '10.0.0.11', port: 9000 }],
    ['[fd00::11]:65535', { host: 'fd00::11', port: 65_535 }],
  ])('ask whether it is ready where it listens: %s', async (listen, place) => {
    expect(await readContainer(listen)).toMatchObject({
      readinessProbe: { httpGet: { ...place, path: '/readyz?pod=static-pod' } },
    });
  });

  test('do not ask whether it is ready where nothing is served', async () => {
    const container = await readContainer('off');
    expect(container).not.toHaveProperty('readinessProbe');
    expect(container).toMatchObject({ startupProbe: isAlive, livenessProbe: isAlive });
  });
});
