import { readFileSync } from 'node:fs';
import { test, expect, describe } from '@jest/globals';
import {
  type ServicePortName,
  isNftAffinitySet,
  kubernetesService,
  nftServiceChain,
  nftServiceChainName,
  nftEndpointChainName,
} from '../../../../lib/kube-proxy/read.ts';
import { webService } from '../../../support/kube-proxy/rules.ts';
import type { Endpoint } from '../../../../lib/net.ts';

const capture = readFileSync(
  new URL('../../../support/fixtures/captures/nft-kube-proxy.client-ip-affinity.txt', import.meta.url),
  'utf8',
);

/** The names of the capture's sets. */
const sets = [...capture.matchAll(/^\tset (\S+) \{$/gm)].map(([, name = '']) => name);

test("a set of clients is known as that of its Service's endpoints", () => {
  const isOf = (service: ServicePortName) => sets.filter((name) => isNftAffinitySet(service, name));
  expect(isOf(kubernetesService)).toHaveLength(3);
  expect(isOf(webService)).toEqual([]);
  expect(isOf({ ...kubernetesService, portName: 'http' })).toEqual([]);
  expect(isOf({ ...kubernetesService, name: 'kube' })).toEqual([]);
});

describe('nftables chains have the names that kube-proxy gives them', () => {
  test('default/kubernetes', () => {
    expect(nftServiceChain).toBe('service-2QRHZV4L-default/kubernetes/tcp/https');
    expect(capture).toContain(`chain ${nftServiceChain} {`);
  });

  test('another service', () => {
    expect(capture).toContain(`chain ${nftServiceChainName(webService)} {`);
  });

  test.each(['10.77.0.11', '10.77.0.12', '10.77.0.13'])('the endpoint %s:6443', (address) => {
    const endpoint: Endpoint = { family: 'ipv4', address, port: 6443 };
    expect(capture).toContain(`chain ${nftEndpointChainName(kubernetesService, endpoint)} {`);
  });

  test('an IPv6 endpoint has dots, for a name may not have colons', () => {
    const endpoint: Endpoint = { family: 'ipv6', address: 'fd00::1', port: 6443 };
    expect(nftEndpointChainName(kubernetesService, endpoint)).toMatch(
      /^endpoint-[A-Z2-7]{8}-default\/kubernetes\/tcp\/https__fd00\.\.1\/6443$/,
    );
  });
});
