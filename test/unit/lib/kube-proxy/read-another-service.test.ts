import { describe, test, expect } from '@jest/globals';
import {
  type ServicePort,
  readIptablesProxy,
  kubernetesService,
  serviceChainName,
  readNftProxy,
  nftServiceChainName,
} from '../../../../lib/kube-proxy/read.ts';
import { parseSave } from '../../../../lib/iptables/rules.ts';
import { readCapture } from '../../../support/kube-proxy/read-capture.ts';
import { webService } from '../../../support/kube-proxy/rules.ts';
import { formatEndpoint } from '../../../../lib/net.ts';

const webPods = ['10.244.3.7:8080', '10.244.3.8:8080'];

const readRules = (text: string, service: ServicePort) =>
  readIptablesProxy(parseSave({ family: 'ipv4', dialect: 'nft', text }), service);
const readWebRules = (state: string) => readRules(readCapture(`iptables-nft-save.${state}.txt`), webService);

const readTable = (json: string, service: ServicePort) => {
  const { nftables } = JSON.parse(json) as { nftables: unknown[] };
  return readNftProxy({ family: 'ipv4', objects: nftables }, service);
};
const readWebTable = (state: string) => readTable(readCapture(`nft-kube-proxy.${state}.json`), webService);

describe('another Service than default/kubernetes, in rules of iptables', () => {
  const three = readCapture('iptables-nft-save.three-endpoints.txt');

  test('has its own edge and backends', () => {
    const seen = readWebRules('three-endpoints');
    expect(seen.entryRule).toEqual({
      value: { clusterIp: '10.96.7.7', port: 80 },
      seenIn: 'nat KUBE-SERVICES (iptables-nft)',
    });
    expect(seen.backends?.value.map(formatEndpoint)).toEqual(webPods);
    expect(seen.backends?.seenIn).toBe('nat KUBE-SVC-CDGGSHYLG3RE2FKL (iptables-nft)');
  });

  test('is unwanted when the rule of its name rejects it', () => {
    const edge = /^-A KUBE-SERVICES .*-j KUBE-SVC-CDGGSHYLG3RE2FKL\n/m;
    const rejected = three
      .replace(edge, '')
      .replace(
        /^COMMIT\n(?=# .*\n# .*\n\*nat)/m,
        '-A KUBE-SERVICES -d 10.96.7.7/32 -p tcp -m comment --comment "default/web:http has no endpoints" -m tcp --dport 80 -j REJECT\nCOMMIT\n',
      );
    expect(readRules(rejected, webService).unwanted?.value).toContain('10.96.7.7/32');
    expect(readRules(rejected, kubernetesService).unwanted).toBeNull();
  });

  test('can be of UDP', () => {
    const service = { ...webService, protocol: 'udp' } as const;
    const udp = three
      .replaceAll('KUBE-SVC-CDGGSHYLG3RE2FKL', serviceChainName(service))
      .replaceAll(/(10\.96\.7\.7\/32) -p tcp/g, '$1 -p udp');
    expect(readRules(udp, service).entryRule?.value.clusterIp).toBe('10.96.7.7');
    expect(readRules(udp, webService).entryRule).toBeNull();
  });
});

describe('another Service than default/kubernetes, in a table of nftables', () => {
  test('has its own edge and backends', () => {
    const seen = readWebTable('three-endpoints');
    expect(seen.entryRule?.value).toEqual({ clusterIp: '10.96.7.7', port: 80 });
    expect(seen.backends?.value.map(formatEndpoint)).toEqual(webPods);
    expect(seen.backends?.seenIn).toBe(
      'chain service-SUSTUHLJ-default/web/tcp/http (nft table ip kube-proxy)',
    );
  });

  test.each(['udp', 17])('can be of UDP, also where nft prints it as a number (%j)', (protocol) => {
    const element = '[{"concat":["10.96.7.7","tcp",80]}';
    const text = JSON.stringify(JSON.parse(readCapture('nft-kube-proxy.three-endpoints.json')));
    expect(text).toContain(element);
    const udp = text
      .replace(element, `[{"concat":["10.96.7.7",${JSON.stringify(protocol)},80]}`)
      .replaceAll(
        'service-SUSTUHLJ-default/web/tcp/http',
        nftServiceChainName({ ...webService, protocol: 'udp' }),
      );
    expect(readTable(udp, { ...webService, protocol: 'udp' }).entryRule?.value.clusterIp).toBe('10.96.7.7');
    expect(readTable(udp, webService).entryRule).toBeNull();
  });
});

describe.each([
  ['rules of iptables', readWebRules],
  ['a table of nftables', readWebTable],
])('another Service than default/kubernetes, in %s', (_, readWeb) => {
  test('is wanted while default/kubernetes has no endpoints', () => {
    expect(readWeb('no-endpoints')).toMatchObject({
      entryRule: { value: { clusterIp: '10.96.7.7', port: 80 } },
      unwanted: null,
    });
  });

  test('keeps no clients with their backend while default/kubernetes does', () => {
    expect(readWeb('client-ip-affinity').affinitySeconds).toBeNull();
  });
});
