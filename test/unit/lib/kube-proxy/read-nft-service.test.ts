import { readCapture } from '../../../support/kube-proxy/read-capture.ts';
import { test, expect, describe } from '@jest/globals';
import {
  type ServicePortName,
  isNftAffinitySet,
  kubernetesService,
  nftServiceChain,
  nftServiceChainName,
} from '../../../../lib/kube-proxy/read.ts';
import { webService } from '../../../support/kube-proxy/rules.ts';

const capture = readCapture('nft-kube-proxy.client-ip-affinity.txt');

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
});
