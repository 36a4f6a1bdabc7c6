import { readCapture } from '../../../support/kube-proxy/read-capture.ts';
import { describe, test, expect } from '@jest/globals';
import { parseIpvs, findServiceServer } from '../../../../lib/kube-proxy/ipvs.ts';
import { formatEndpoint } from '../../../../lib/net.ts';

const three = readCapture('proc-net-ip_vs.three-endpoints.txt');

/** As ip_vs_info_seq_show prints it, with every kind of line. */
const allKinds = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
FWM  0000002A wlc persistent 300 FFFFFFFF
  -> 0A000001:0000      Route   3      0          0         
FWM  0000002B rr ops 
UDP  0A60000A:0035 rr ops 
  -> 0AF40102:0035      Masq    1      0          7         
SCTP  0A60000B:0BB8 none  
TCP  0A600001:01BB rr  persistent 10800 FFFFFFFF
  -> 0A000001:192B      Masq    1      12         3         
  -> 0A000002:192B      Tunnel  0      0          0         
TCP  [fd00:0096:0000:0000:0000:0000:0000:0001]:01BB mh persistent 10800 00000080
  -> [fd00:0000:0000:0000:0000:0000:0000:0001]:192B      Local   1      0          0         
`;

describe('parseIpvs', () => {
  test('reads what the kernel shows of a real kube-proxy', () => {
    const [service, web] = parseIpvs(three);
    expect(service).toMatchObject({
      ...{ protocol: 'TCP', address: { family: 'ipv4', address: '10.96.0.1', port: 443 }, scheduler: 'rr' },
    });
    expect(service?.realServers.map(({ endpoint, weight }) => [formatEndpoint(endpoint), weight])).toEqual([
      ['10.77.0.13:6443', 1],
      ['10.77.0.12:6443', 1],
      ['10.77.0.11:6443', 1],
    ]);
    expect(web?.realServers).toHaveLength(2);
  });

  test('without a virtual server there is none', () => {
    expect([parseIpvs(''), parseIpvs(allKinds.split('\n').slice(0, 3).join('\n'))]).toEqual([[], []]);
  });

  test.each([
    ['a word', 'nonsense'],
    ['a real server of no virtual server', '  -> 0A000001:192B      Masq    1      0          0         '],
    ['a virtual server without an address', 'TCP  rr'],
    ['an address in another notation', 'TCP  10.96.0.1:443 rr  '],
    ['a real server without a weight', 'TCP  0A600001:01BB rr  \n  -> 0A000001:192B      Masq'],
    ['an IPv6 address that is none', 'TCP  [fd00::1::]:01BB rr  '],
  ])('%s is an error that shows the line', (_, text) => {
    const message = expect.stringContaining(text.split('\n').at(-1) ?? '');
    expect(() => parseIpvs(text)).toThrow(
      expect.objectContaining({ code: 'TOOL_OUTPUT_UNEXPECTED', message }),
    );
  });
});

describe('findServiceServer', () => {
  const web = { family: 'ipv4', protocol: 'tcp', port: 80 } as const;

  test('finds another Service of a real kube-proxy by its ClusterIP, beside default/kubernetes', () => {
    const { server, reason } = findServiceServer(parseIpvs(three), { ...web, clusterIp: '10.96.7.7' });
    expect(server).toMatchObject({ value: { clusterIp: '10.96.7.7', port: 80 }, seenIn: '/proc/net/ip_vs' });
    expect(server?.value.backends.map(formatEndpoint)).toEqual(['10.244.3.7:8080', '10.244.3.8:8080']);
    expect(reason).toBeNull();
  });

  test.each([
    ['UDP', { protocol: 'udp', port: 53, clusterIp: '10.96.0.10' }, ['10.244.1.2:53']],
    ['SCTP', { protocol: 'sctp', port: 3000, clusterIp: '10.96.0.11' }, []],
  ] as const)('finds one of %s, with its real servers', (_, question, backends) => {
    const { server } = findServiceServer(parseIpvs(allKinds), { family: 'ipv4', ...question });
    expect(server?.value.backends.map(formatEndpoint)).toEqual(backends);
  });

  test.each([
    ['port', { ...web, port: 443 }, 'TCP virtual server 10.96.7.7:443'],
    ['protocol', { ...web, protocol: 'udp' }, 'UDP virtual server 10.96.7.7:80'],
    ['family', { ...web, family: 'ipv6' }, 'TCP virtual server 10.96.7.7:80'],
  ] as const)('does not take one of another %s, and says what is missing', (_, question, missing) => {
    expect(findServiceServer(parseIpvs(three), { ...question, clusterIp: '10.96.7.7' })).toEqual({
      server: null,
      reason: `/proc/net/ip_vs has no ${missing}`,
    });
  });
});
