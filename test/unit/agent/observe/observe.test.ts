import type { FakeKernel } from '../../../support/fakes/kernel.ts';
import { type Observation, interpret, findProxyPart } from '../../../../agent/observe/observe.ts';
import { everything } from '../../../../agent/read-host.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { formatEndpoint } from '../../../../lib/net.ts';
import { describe, test, expect } from '@jest/globals';
import { restoreCaptures } from '../../../support/agent/captured-host.ts';

const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];
const two = three.slice(0, 2);

async function observe(kernel: FakeKernel, asked: string | null = null): Promise<Observation> {
  return interpret(await kernel.read(everything), asked, ordinaryConfig);
}

const backendsOf = ({ views, proxyMode }: Observation) =>
  findProxyPart(views.ipv4, proxyMode.value).backends?.value.map(formatEndpoint);

const inBoth = ['iptables-nft-save.three-endpoints.txt', 'iptables-legacy-save.two-endpoints.txt'];

describe('what kube-proxy has as apiservers', () => {
  test('is what it has in the mode it runs in, whatever another one left behind', async () => {
    const kernel = restoreCaptures([
      'nft-kube-proxy.three-endpoints.json',
      'iptables-nft-save.two-endpoints.txt',
    ]);
    expect(backendsOf(await observe(kernel, 'iptables'))).toEqual(two);
    expect(backendsOf(await observe(kernel, 'nftables'))).toEqual(three);
  });

  test('is what packets get to, not what is left over in the other backend', async () => {
    const kernel = restoreCaptures(inBoth);
    kernel.run('ipv4', 'nft', '*nat\n-F PREROUTING\nCOMMIT\n');
    expect(backendsOf(await observe(kernel))).toEqual(two);
  });
});

test('the backend is told otherwise than by live rules when both have them', async () => {
  const kernel = restoreCaptures(inBoth);
  expect((await observe(kernel)).dialect.seenIn).toBe('mangle has KUBE-PROXY-CANARY');
});
