import { describe, expect, test } from '@jest/globals';
import {
  formatServer,
  isUnhealthy,
  type KnownApiservers,
  listApiServers,
} from '../../../../lib/kubernetes/servers.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';

const vips = ['10.0.0.50:6443', '[fd00::50]:6443'].map(toEndpoint);
const endpoints = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'].map(toEndpoint);
const known = { endpoints, localAddresses: new Set(['10.0.0.12', '10.0.0.50']) };
const nobody = { endpoints: [], localAddresses: new Set<string>() };

const list = (host: string, more: { port?: number; isInCluster?: boolean; known?: KnownApiservers } = {}) => {
  const { port = 6443, isInCluster = false } = more;
  return listApiServers({ host, port, isInCluster }, more.known ?? known, vips).map(formatServer);
};

describe('the API is asked', () => {
  test.each([
    ['10.0.0.50', 6443],
    ['10.0.0.50', 8443],
    ['fd00::50', 6443],
    ['fd00:0:0:0::50', 6443],
  ])('at this host and then at the others, never at a virtual IP, whatever its port: %s %d', (host, port) => {
    expect(list(host, { port })).toEqual(['10.0.0.12:6443', '10.0.0.11:6443', '10.0.0.13:6443']);
  });

  test('where the credentials say, when that is another address, and then at those that are known', () => {
    expect(list('10.0.0.13')).toEqual(['10.0.0.13:6443', '10.0.0.12:6443', '10.0.0.11:6443']);
    expect(list('192.0.2.1', { port: 443 })).toEqual([
      '192.0.2.1:443',
      '10.0.0.12:6443',
      '10.0.0.11:6443',
      '10.0.0.13:6443',
    ]);
  });

  test('at the ClusterIP last, for it may lead nowhere', () => {
    const servers = list('10.96.0.1', { port: 443, isInCluster: true });
    expect(servers).toEqual(['10.0.0.12:6443', '10.0.0.11:6443', '10.0.0.13:6443', '10.96.0.1:443']);
  });

  test('by a name last, for it takes DNS', () => {
    expect(list('api.example.com').at(-1)).toBe('api.example.com:6443');
  });

  test('at this host’s own apiserver, which nobody names, after all who are named', () => {
    const moved = { ...known, own: [toEndpoint('10.0.0.99:6443'), toEndpoint('10.0.0.50:6443')] };
    expect(list('10.0.0.50', { known: moved })).toEqual([
      '10.0.0.12:6443',
      '10.0.0.11:6443',
      '10.0.0.13:6443',
      '10.0.0.99:6443',
    ]);
    expect(list('10.96.0.1', { port: 443, isInCluster: true, known: moved }).slice(-2)).toEqual([
      '10.0.0.99:6443',
      '10.96.0.1:443',
    ]);
  });

  test('on this host while no apiserver is known, for it may have one', () => {
    expect(list('10.0.0.50', { known: nobody })).toEqual(['127.0.0.1:6443']);
    expect(list('10.0.0.50', { port: 8443, known: nobody })).toEqual(['127.0.0.1:8443', '127.0.0.1:6443']);
    expect(list('fd00:10:96::1', { port: 443, isInCluster: true, known: nobody })).toEqual([
      '127.0.0.1:6443',
      '[fd00:10:96::1]:443',
    ]);
    expect(list('10.0.0.11', { known: nobody })).toEqual(['10.0.0.11:6443']);
  });
});

describe('an apiserver is known to be down', () => {
  const unwell = new Set(['10.0.0.12:6443', '[fd00::12]:6443']);

  test.each([
    ['10.0.0.12', 6443, true],
    ['10.0.0.12', 443, false],
    ['10.0.0.11', 6443, false],
    ['fd00::12', 6443, true],
    ["127.0.0.1 as this host's own", 6443, true],
    ["::1 as this host's own", 6443, true],
    ['127.0.0.1 with the port of somebody else', 8443, false],
    ['10.96.0.1', 443, false],
    ['api.example.com', 6443, false],
  ])('%s, port %d: %s', (name, port, isDown) => {
    const [host = ''] = name.split(' ');
    expect(isUnhealthy({ host, port }, known, unwell)).toBe(isDown);
  });

  test('but not the one at a loopback address, where this host has none', () => {
    const own = { host: '127.0.0.1', port: 6443 };
    expect(isUnhealthy(own, { endpoints, localAddresses: new Set() }, unwell)).toBe(false);
    expect(isUnhealthy(own, nobody, unwell)).toBe(false);
  });
});
