import { expect, test } from '@jest/globals';
import { findPodSpec, print } from '../../../../support/manifest/printing.ts';

const envOf = async (...words: string[]) =>
  findPodSpec(await print([...words, '--vip', '10.0.0.50'])).containers[0]['env'];

const pod = (value: string) => ({ name: 'VIPNAT_POD', value });
const nodeName = { name: 'VIPNAT_NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } };

test("an agent with credentials is told its node's name, which its events are about", async () => {
  expect(await envOf('daemonset')).toEqual([pod('daemonset'), nodeName]);
  const kubeconfig = ['--kubeconfig', '/etc/kubernetes/vipnat.conf'];
  expect(await envOf('static-pod', ...kubeconfig)).toEqual([pod('static-pod'), nodeName]);
  expect(await envOf('static-pod', ...kubeconfig, '--node-name', 'm1')).toEqual([pod('static-pod')]);
});

test('an agent without them writes no events, and is not told', async () => {
  expect(await envOf('static-pod')).toEqual([pod('static-pod')]);
});
