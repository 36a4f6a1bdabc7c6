import { readCapture } from '../../../support/kube-proxy/read-capture.ts';
import {
  type ServicePortName,
  formatServicePort,
  kubernetesService,
  serviceChainName,
  isNftAffinitySet,
} from '../../../../lib/kube-proxy/read.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { webService, endpointChainName } from '../../../support/kube-proxy/rules.ts';

const capture = readCapture('iptables-nft-save.three-endpoints.txt');

const dns = { namespace: 'kube-system', name: 'kube-dns' };

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

test('each endpoint in a real set of rules is translated to in the chain that the rules of tests have for it', () => {
  const ends = [...capture.matchAll(/^-A (\S+) .*"default\/kubernetes:https".* --to-destination (\S+)$/gm)];
  expect(ends).toHaveLength(3);
  for (const [, chain, endpoint = ''] of ends)
    expect(endpointChainName(kubernetesService, toEndpoint(endpoint))).toBe(chain);
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
