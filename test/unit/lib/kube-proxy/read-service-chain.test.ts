import { readCapture } from '../../../support/kube-proxy/read-capture.ts';
import {
  type ServicePortName,
  endpointChainName,
  formatServicePort,
  kubernetesService,
  serviceChainName,
  isNftAffinitySet,
} from '../../../../lib/kube-proxy/read.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { webService } from '../../../support/kube-proxy/rules.ts';

const capture = readCapture('iptables-nft-save.three-endpoints.txt');

const dns = { namespace: 'kube-system', name: 'kube-dns' };

const nameEndpointChain = (service: ServicePortName, text: string) =>
  endpointChainName(service, toEndpoint(text));

describe('service chains have the names that kube-proxy gives them', () => {
  test.each([
    [{ ...dns, portName: 'dns', protocol: 'udp' }, 'KUBE-SVC-TCOU7JCQXEZGVUNU'],
    [{ ...dns, portName: 'dns-tcp', protocol: 'tcp' }, 'KUBE-SVC-ERIFXISQEP7F7OF4'],
    [{ ...dns, portName: 'metrics', protocol: 'tcp' }, 'KUBE-SVC-JD5MR3NA4I4DYORP'],
    [{ namespace: 'default', name: 'web', portName: 'http', protocol: 'tcp' }, 'KUBE-SVC-CDGGSHYLG3RE2FKL'],
  ] as const)('%o', (service, name) => {
    expect(serviceChainName(service)).toBe(name);
  });

  test('a port without a name leaves no colon behind', () => {
    const service = { namespace: 'default', name: 'web', portName: '', protocol: 'tcp' } as const;
    expect(formatServicePort(service)).toBe('default/web');
    expect(serviceChainName(service)).toBe('KUBE-SVC-LOLE4ISW44XBNF3G');
  });
});

describe('endpoint chains have the names that kube-proxy gives them', () => {
  test.each([
    ['10.0.0.1:6443', 'KUBE-SEP-NMFUQD3Y5ZBKJ7GW'],
    ['[fd00::1]:6443', 'KUBE-SEP-7YRPYSN65VLT7QRK'],
  ])('%s', (endpoint, name) => {
    expect(nameEndpointChain(kubernetesService, endpoint)).toBe(name);
  });

  test('each endpoint in a real set of rules is translated to in the chain of its name', () => {
    const ends = [...capture.matchAll(/^-A (\S+) .*"default\/kubernetes:https".* --to-destination (\S+)$/gm)];
    expect(ends).toHaveLength(3);
    for (const [, chain, endpoint = ''] of ends)
      expect(nameEndpointChain(kubernetesService, endpoint)).toBe(chain);
  });
});

const sets = [...readCapture('nft-kube-proxy.client-ip-affinity.txt').matchAll(/^\tset (\S+) \{$/gm)].map(
  ([, name = '']) => name,
);

test("a set of clients is known as that of its Service's endpoints", () => {
  const isOf = (service: ServicePortName) => sets.filter((name) => isNftAffinitySet(service, name));
  expect(isOf(kubernetesService)).toHaveLength(3);
  expect([isOf(webService), isOf({ ...kubernetesService, portName: 'http' })]).toEqual([[], []]);
  expect(isOf({ ...kubernetesService, name: 'kube' })).toEqual([]);
});
