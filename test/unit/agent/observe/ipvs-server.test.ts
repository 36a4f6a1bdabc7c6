import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { findKubernetesServer, type ServiceQuestion } from '../../../../agent/observe/ipvs-server.ts';
import { formatEndpoint } from '../../../../lib/address/endpoint.ts';
import { parseIpvs } from '../../../../lib/kube-proxy/ipvs.ts';

const three = readFileSync(
  new URL('../../../support/fixtures/captures/proc-net-ip_vs.three-endpoints.txt', import.meta.url),
  'utf8',
);

/** A server of each family. */
const both = `IP Virtual Server version 1.2.1 (size=4096)
TCP  0A600001:01BB rr  persistent 10800 FFFFFFFF
  -> 0A000001:192B      Masq    1      12         3         
TCP  [fd00:0096:0000:0000:0000:0000:0000:0001]:01BB mh persistent 10800 00000080
  -> [fd00:0000:0000:0000:0000:0000:0000:0001]:192B      Local   1      0          0         
`;

interface ServerSketch {
  readonly address: string;
  readonly realServers: readonly string[];
  readonly protocol?: string;
}

/** Text of /proc/net/ip_vs for IPv4 servers; a real server is `ADDRESS:PORT`, or `ADDRESS:PORT 0` with weight 0. */
function sketch(...servers: readonly ServerSketch[]): string {
  const toHex = (endpoint: string) => {
    const [address = '', port = ''] = endpoint.split(':');
    const octets = address.split('.').map((octet) => Number(octet).toString(16).padStart(2, '0'));
    return `${octets.join('')}:${Number(port).toString(16).padStart(4, '0')}`.toUpperCase();
  };
  const lines = servers.flatMap(({ address, realServers, protocol = 'TCP' }) => [
    `${protocol}  ${toHex(address)} rr  `,
    ...realServers.map((realServer) => {
      const [endpoint = '', weight = '1'] = realServer.split(' ');
      return `  -> ${toHex(endpoint)}      Masq    ${weight}      0          0         `;
    }),
  ]);
  return `${lines.join('\n')}\n`;
}

describe('findKubernetesServer', () => {
  const find = (text: string, question: Partial<ServiceQuestion> = {}) => {
    const { server, reason } = findKubernetesServer(parseIpvs(text), {
      family: 'ipv4',
      localAddresses: ['127.0.0.1', '10.0.0.1'],
      ...question,
    });
    return {
      clusterIp: server?.value.clusterIp,
      backends: server?.value.backends.map(formatEndpoint),
      reason,
    };
  };
  const apiservers = { address: '10.96.0.1:443', realServers: ['10.0.0.1:6443', '10.0.0.2:6443'] };
  const web = { address: '10.96.7.7:443', realServers: ['10.244.3.8:8443'] };

  test('finds it where a real kube-proxy made it, and says where', () => {
    const question = { family: 'ipv4', localAddresses: ['10.77.0.12'] } as const;
    const { server, reason } = findKubernetesServer(parseIpvs(three), question);
    expect(server).toMatchObject({ value: { clusterIp: '10.96.0.1', port: 443 }, seenIn: '/proc/net/ip_vs' });
    expect(server?.value.backends.map(formatEndpoint)).toEqual([
      '10.77.0.11:6443',
      '10.77.0.12:6443',
      '10.77.0.13:6443',
    ]);
    expect(reason).toBeNull();
  });

  test('the one that leads to this host is it, whatever its port', () => {
    const own = { address: '10.96.0.1:443', realServers: ['10.0.0.1:8443', '10.0.0.2:8443'] };
    expect(find(sketch(web, own)).clusterIp).toBe('10.96.0.1');
  });

  test('when none leads to this host, the one that leads to 6443 only is it', () => {
    expect(find(sketch(web, apiservers), { localAddresses: ['10.0.0.9'] }).clusterIp).toBe('10.96.0.1');
  });

  test('IPv6 servers are found among themselves', () => {
    const seen = find(both, { family: 'ipv6' });
    expect(seen).toMatchObject({ clusterIp: 'fd00:96::1', backends: ['[fd00::1]:6443'] });
  });

  test('a real server of weight 0 is no backend', () => {
    const leaving = { ...apiservers, realServers: ['10.0.0.1:6443', '10.0.0.2:6443 0'] };
    expect(find(sketch(leaving)).backends).toEqual(['10.0.0.1:6443']);
  });

  describe('never guesses', () => {
    test.each([
      ['it is UDP', { ...apiservers, protocol: 'UDP' }],
      ['it is on another port', { ...apiservers, address: '10.96.0.1:6443' }],
      ['it leads elsewhere', { ...apiservers, realServers: ['10.0.0.2:8443'] }],
      ['it leads to 6443 and elsewhere', { ...apiservers, realServers: ['10.0.0.2:6443', '10.0.0.3:8443'] }],
      ['no real server gets connections', { ...apiservers, realServers: ['10.0.0.1:6443 0'] }],
      ['it has no real server', { ...apiservers, realServers: [] }],
      ['its address is not the first of any range', { ...apiservers, address: '10.96.37.200:443' }],
    ])('a server is not it when %s', (_, server) => {
      const { clusterIp, reason } = find(sketch(server));
      expect(clusterIp).toBeUndefined();
      expect(reason).toContain('--cluster-ip');
    });

    test('between two that lead to this host', () => {
      const ingress = { address: '10.96.7.1:443', realServers: ['10.0.0.1:443'] };
      const { clusterIp, reason } = find(sketch(apiservers, ingress));
      expect(clusterIp).toBeUndefined();
      expect(reason).toMatch(/10\.96\.0\.1.*10\.96\.7\.1.*--cluster-ip/);
    });

    test('between two that lead to 6443', () => {
      const nested = { address: '10.96.7.1:443', realServers: ['10.244.3.8:6443'] };
      expect(find(sketch(nested, apiservers), { localAddresses: [] }).clusterIp).toBeUndefined();
    });

    test('for another service on this host while the apiservers behind the lower address are others', () => {
      const ingress = { address: '10.96.7.1:443', realServers: ['10.0.0.1:443'] };
      const rest = { address: '10.96.0.1:443', realServers: ['10.0.0.2:8443'] };
      expect(find(sketch(ingress, rest)).clusterIp).toBeUndefined();
      expect(find(sketch(ingress, { ...rest, realServers: [] })).clusterIp).toBeUndefined();
    });

    test('addresses are compared as numbers', () => {
      const low = { address: '9.96.0.1:443', realServers: ['10.244.3.8:8443'] };
      expect(find(sketch(apiservers, low)).clusterIp).toBeUndefined();
      expect(find(sketch(apiservers, { ...low, address: '100.96.0.1:443' })).clusterIp).toBe('10.96.0.1');
    });
  });

  describe('with the ClusterIP given', () => {
    const nested = { address: '10.96.7.1:443', realServers: ['10.0.0.1:6443'] };

    test('only that one counts', () => {
      expect(find(sketch(nested, apiservers), { clusterIp: '10.96.0.1' }).clusterIp).toBe('10.96.0.1');
      expect(find(sketch(nested), { clusterIp: '10.96.0.1' })).toMatchObject({
        clusterIp: undefined,
        reason: expect.stringContaining('10.96.0.1:443') as unknown,
      });
    });

    test('it is found wherever it leads, also nowhere', () => {
      const empty = { address: '10.96.37.200:443', realServers: ['10.0.0.1:6443 0'] };
      expect(find(sketch(empty), { clusterIp: '10.96.37.200' })).toMatchObject({
        backends: [],
        reason: null,
      });
    });

    test('it is compared as an address, not as text', () => {
      const question = { family: 'ipv6', clusterIp: 'FD00:96:0::1' } as const;
      expect(find(both, question).clusterIp).toBe('fd00:96::1');
    });
  });
});
