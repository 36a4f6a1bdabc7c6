import { expect, test } from '@jest/globals';
import { findPodSpec, print } from '../../../../support/manifest/printing.ts';

const envOf = async (...words: string[]) =>
  findPodSpec(await print([...words, '--vip', '10.0.0.50'])).containers[0]['env'];

const nodeName = { name: 'VIPNAT_NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } };

test("an agent with credentials is told its node's name, which its events are about", async () => {
  expect(await envOf('daemonset')).toEqual([nodeName]);
  const kubeconfig = ['--kubeconfig', '/etc/kubernetes/vipnat.conf'];
  expect(await envOf('static-pod', ...kubeconfig)).toEqual([nodeName]);
  expect(await envOf('static-pod', ...kubeconfig, '--node-name', 'm1')).toBeUndefined();
});

test('an agent without them writes no events, and is told nothing', async () => {
  expect(await envOf('static-pod')).toBeUndefined();
});
