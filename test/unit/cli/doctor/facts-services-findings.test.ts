import { makeObjects, makeNodeLease } from '../../../support/fakes/service-view.ts';
import { makePool } from '../../../support/fakes/service-objects.ts';
import { describe, test, expect } from '@jest/globals';
import type { HostFacts } from '../../../../cli/doctor/facts.ts';
import {
  services,
  well,
  running,
  activity,
  path,
  wellHost,
  seatText,
  makeCluster,
  classless,
  tellServices,
} from '../../../support/doctor/services-host.ts';
import { advert } from '../../../support/doctor/well-host.ts';

const [pool] = makeObjects({}).pools;
const accepted = { type: 'Accepted', status: 'True', reason: 'NodeReportsAddress' };
const misreported = makePool('pool', pool?.spec ?? {}, {
  status: {
    ...pool?.status,
    conditions: [{ ...accepted, message: 'Nodes report: 10.0.9.10 (the node w1).' }],
  },
});

describe('on a host with Services', () => {
  test.each<[string, Partial<HostFacts>, string, string]>([
    [
      'balancer-not-running',
      services({ ...well, host: { ...running, balancer: null, activity: null } }),
      'warn',
      'count for 25 more seconds',
    ],
    [
      'balancer-not-running',
      services({
        ...well,
        host: {
          ...running,
          balancer: null,
          activity: null,
          tables: [{ family: 'ipv4', aliveSeconds: null }],
        },
      }),
      'fail',
      'Its tables (ip vipnat-lb) no longer count',
    ],
    [
      'balancer-tables-off',
      services({ ...well, host: { ...running, tables: [{ family: 'ipv4', aliveSeconds: null }] } }),
      'fail',
      'no balancer renewed ip vipnat-lb for 30 s',
    ],
    [
      'balancer-tables-off',
      services({
        ...well,
        nftVersion: '1.0.6',
        host: { ...running, activity: { ...activity, mode: 'kube-proxy' } },
      }),
      'fail',
      'it reports mode kube-proxy',
    ],
    [
      'balancer-hangs',
      services({ ...well, host: { ...running, activity: { ...activity, behindMs: 180_000 } } }),
      'fail',
      'has lasted for 3m00s',
    ],
    [
      'balancer-without-api',
      services({ ...well, host: { ...running, activity: { ...activity, isFollowing: false } } }),
      'warn',
      'does not follow the Kubernetes API',
    ],
    [
      'node-never-answered',
      services({
        ...well,
        host: { ...running, activity: { ...activity, unheard: ['w3 (10.0.0.23:10256)'] } },
      }),
      'warn',
      'node w3 (10.0.0.23:10256) has never answered',
    ],
    [
      'services-behind-strict-tunnel',
      services({ ...well, strictTunnels: { value: ['flannel.1'] } }),
      'warn',
      'flannel.1 drops packets',
    ],
    ['seats-keepalived-not-running', services(well), 'fail', `no keepalived runs with ${path}`],
    [
      'seats-configuration-refused',
      {
        ...wellHost,
        ...services({
          ...well,
          keepalived: { value: { path, text: seatText, refusal: '(Line 4) unknown\nmore' } },
        }),
      },
      'fail',
      'refused /run/vipnat-lb/keepalived.conf: (Line 4) unknown',
    ],
    [
      'seat-vrid-clash',
      {
        ...wellHost,
        adverts: { value: [{ ...advert, vrid: 11, source: '10.0.9.77', addresses: ['10.0.9.200'] }] },
      },
      'fail',
      '10.0.9.77 uses it for 10.0.9.200',
    ],
    [
      'seat-vrid-clash',
      {
        ...wellHost,
        keepalived: {
          value: {
            path: '/etc/keepalived/keepalived.conf',
            text: 'vrrp_instance vip {\n interface eth0\n virtual_router_id 11\n virtual_ipaddress { 10.77.0.50 }\n}',
            files: [],
          },
        },
      },
      'fail',
      'the vrrp_instance vip of /etc/keepalived/keepalived.conf has it, too',
    ],
    [
      'pool-address-in-use',
      {
        ...wellHost,
        ...services({ ...well, host: { ...running, activity: { ...activity, inUse: ['10.0.9.14'] } } }),
      },
      'fail',
      'another host has 10.0.9.14',
    ],
    [
      'pool-address-in-use',
      {
        ...wellHost,
        ...services({
          ...well,
          cluster: { value: makeCluster({}) },
          poolUsers: { value: new Map([['10.0.9.15', '02:00:00:00:00:07']]) },
        }),
      },
      'fail',
      'MAC 02:00:00:00:00:07 answers',
    ],
    [
      'pool-address-in-use',
      {
        ...wellHost,
        ...services({
          ...well,
          cluster: {
            value: makeCluster({ leases: [makeNodeLease('w2', 2, { inUse: ['10.0.9.16'] })] }),
          },
          poolUsers: { value: new Map() },
        }),
      },
      'fail',
      'w2 found it',
    ],
    [
      'pool-off-network',
      {
        ...wellHost,
        ...services({
          ...well,
          cluster: { value: makeCluster({}, '10.0.8.1') },
          poolUsers: { value: new Map() },
        }),
      },
      'warn',
      '10.0.9.10 is in no subnet of this host',
    ],
    [
      'node-reports-service-address',
      {
        ...wellHost,
        ...services({
          ...well,
          cluster: { value: makeCluster({ pools: [misreported] }) },
          poolUsers: { value: new Map() },
        }),
      },
      'warn',
      '10.0.9.10 (the node w1)',
    ],
    [
      'service-without-class',
      {
        ...wellHost,
        ...services({
          ...well,
          cluster: { value: makeCluster({ services: [classless] }) },
          poolUsers: { value: new Map() },
        }),
      },
      'warn',
      'no controller serves shop/old',
    ],
  ])('%s is told, and it alone', async (code, changes, level, words) => {
    const told = (await tellServices({ seatProcesses: { value: [] }, ...wellHost, ...changes })).filter(
      (outcome) => outcome.level !== 'skipped',
    );
    const expected = code === 'seats-keepalived-not-running' ? await withoutSeats(changes) : told;
    expect(expected).toMatchObject([{ code, level }]);
    expect(JSON.stringify(expected)).toContain(words);
  });

  const withoutSeats = async (changes: Partial<HostFacts>) =>
    (await tellServices({ ...changes, seatProcesses: { value: [] } })).filter(
      ({ level }) => level !== 'skipped',
    );
});
