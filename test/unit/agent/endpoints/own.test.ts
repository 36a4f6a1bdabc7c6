import { expect, test } from '@jest/globals';
import { findOwnEndpoint, type OwnSources } from '../../../../agent/endpoints/own.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';

const on = (device: string, address: string) =>
  ({ family: address.includes(':') ? 'ipv6' : 'ipv4', address, device }) as const;

const sources: OwnSources = {
  family: 'ipv4',
  addresses: [
    on('lo', '127.0.0.1'),
    on('docker0', '172.17.0.1'),
    on('eth1', '192.168.7.4'),
    on('eth0', '10.77.0.99'),
    on('eth0', '10.77.0.50'),
    on('eth0', 'fd77::99'),
  ],
  vips: [toEndpoint('10.77.0.50:443')],
  listed: [toEndpoint('10.0.3.11:6443')],
  others: [],
};

test.each<[string, Partial<OwnSources>, string | null]>([
  ['at the address most like the VIP, at the listed ones’ port', {}, '10.77.0.99:6443'],
  [
    'at the address most like a listed one',
    { vips: [toEndpoint('203.0.113.9:443')], listed: [toEndpoint('192.168.7.11:7443')] },
    '192.168.7.4:7443',
  ],
  [
    'where another source names one of this host’s',
    { others: [toEndpoint('172.17.0.1:6443')] },
    '172.17.0.1:6443',
  ],
  ['nowhere when one of this host’s is listed', { listed: [toEndpoint('192.168.7.4:6443')] }, null],
  ['nowhere when nobody is listed', { listed: [] }, null],
  [
    'nowhere on a host without an address',
    { addresses: [on('lo', '127.0.0.1'), on('eth0', '10.77.0.50')] },
    null,
  ],
  ['never at the address of a Service', { addresses: [on('kube-ipvs0', '10.77.0.51')] }, null],
])('this host’s own apiserver is looked for %s', (_where, given, found) => {
  expect(findOwnEndpoint({ ...sources, ...given })).toEqual(found === null ? null : toEndpoint(found));
});
