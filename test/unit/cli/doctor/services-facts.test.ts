import { describe, test, expect } from '@jest/globals';
import { diagnose } from '../../../../cli/doctor/examine.ts';
import { makeFacts, assessWell, tell, advert } from '../../../support/doctor/well-host.ts';
import {
  codes,
  makeCluster,
  classless,
  tellServices,
  services,
  wellHost,
  activity,
  well,
  running,
} from '../../../support/doctor/services-host.ts';
import { TemporaryFolder } from '../../../support/network/at-end.ts';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findCalicoMap, listFree } from '../../../../cli/doctor/services-facts.ts';
import { sysctlNames, type HostFacts } from '../../../../cli/doctor/facts.ts';
import { makeObjects } from '../../../support/fakes/service-view.ts';

describe('on a host without Services', () => {
  test('nothing is told of them, and one row says that all is well', async () => {
    const topics = diagnose(await makeFacts());
    const topic = topics.find(({ name }) => name === 'Services');
    expect(topic?.outcomes).toEqual(codes.map((code) => ({ code, level: 'ok' })));
  });

  test('an API without pools changes nothing of that, whatever Services wait there', async () => {
    const cluster = makeCluster({ pools: [], services: [classless] });
    expect(await tellServices(services({ cluster: { value: cluster } }))).toEqual([]);
  });
});

describe('on a host with Services', () => {
  test('only what needs the API is not checked without credentials, and it says so', async () => {
    const reason = 'not asked: the Kubernetes API needs --kubeconfig';
    expect(await tellServices(wellHost)).toEqual(
      [
        'pod-waits-for-gate',
        'pool-off-network',
        'pool-address-in-use',
        'node-reports-service-address',
        'service-without-class',
        'webhook-not-trusted',
        'device-not-ready',
        'device-secret-missing',
        'device-missing',
        'device-finalizer-left',
      ].map((code) => ({ code, level: 'skipped', reason })),
    );
  });

  test('and without a virtual IP of the API, nothing is said of one', async () => {
    const facts = await makeFacts(wellHost);
    const topics = diagnose({ ...facts, config: { ...facts.config, vips: [] } });
    expect(topics.map(({ name }) => name)).toEqual(['rights, tools, kernel', 'kube-proxy', 'Services']);
  });

  test.each([
    ['missing', null, ['iptables-nft-save', 'apt-get'], 'nft is not in PATH'],
    ['1.0.2', '1.0.2', ['nft', 'apt-get'], 'nft is version 1.0.2'],
  ])(
    'nft that is %s is told where the balancer does not write its tables',
    async (_, nftVersion, tools, words) => {
      const off = { ...activity, mode: 'kube-proxy' as const };
      const told = await tellServices({
        ...wellHost,
        tools: new Set(tools),
        ...services({ ...well, nftVersion, host: { ...running, activity: off } }),
      });
      expect(told.find(({ code }) => code === 'balancer-lacks-nft')).toMatchObject({
        title: words,
        remedy: ['# if the balancer runs outside of a pod:', 'apt-get install nftables'],
      });
      const direct = await tellServices({ ...wellHost, ...services({ ...well, nftVersion }) });
      expect(direct.map(({ code }) => code)).not.toContain('balancer-lacks-nft');
    },
  );

  test('Cilium is told of where it replaces kube-proxy, and not beside it', async () => {
    const assessment = await assessWell();
    const proxyMode = { value: 'none', seenIn: 'no chains of kube-proxy' } as const;
    const replaced = { ...assessment, observation: { ...assessment.observation, proxyMode } };
    const cilium = '/sys/class/net/cilium_host';
    const peers = await tellServices({ ...wellHost, ...services({ ...well, cilium }) });
    expect(peers.map(({ code }) => code)).not.toContain('services-beside-cilium');
    const told = await tellServices({
      ...wellHost,
      assessment: { value: replaced },
      ...services({ ...well, cilium }),
    });
    expect(told.find(({ code }) => code === 'services-beside-cilium')).toMatchObject({ level: 'warn' });
  });

  test("Calico is told of where its eBPF dataplane has its map, and not for Felix's chains or other maps", async () => {
    const folder = new TemporaryFolder('maps');
    const make = (name: string) => {
      writeFileSync(join(folder.path, name), '');
    };
    for (const name of ['cali_v4_stats', 'cali_jump3', 'cilium_lb4_services_v2']) make(name);
    const told = async () => {
      const calicoEbpf = await findCalicoMap(folder.path);
      const outcomes = await tellServices({ ...wellHost, ...services({ ...well, calicoEbpf }) });
      return outcomes.find(({ code }) => code === 'services-beside-calico-ebpf');
    };
    expect(await findCalicoMap('/nowhere')).toBeNull();
    expect(await told()).toBeUndefined();
    make('cali_v4_nat_fe3');
    expect(await told()).toMatchObject({
      level: 'warn',
      why: expect.stringContaining('bpfHostConntrackBypass'),
    });
    folder.remove();
  });

  test('loose ARP beside IPVS is a failure: each node answers for the addresses of Services', async () => {
    const assessment = await assessWell();
    const proxyMode = { value: 'ipvs', seenIn: 'kube-proxy' } as const;
    const dummy = { family: 'ipv4', address: '10.0.9.12', device: 'kube-ipvs0' } as const;
    const addresses = [...assessment.observation.addresses, dummy];
    const ipvs = { ...assessment, observation: { ...assessment.observation, proxyMode, addresses } };
    const loose = {
      assessment: { value: ipvs },
      sysctls: new Map([
        [sysctlNames.arpIgnore, '0'],
        [sysctlNames.arpAnnounce, '0'],
      ]),
    };
    const find = async (changes: Partial<HostFacts>) =>
      (await tell({ ...loose, ...changes })).find(({ code }) => code === 'strict-arp-off');
    expect(await find({})).toMatchObject({ level: 'warn' });
    expect(await find(wellHost)).toMatchObject({
      level: 'fail',
      why: expect.stringContaining('It has 1 here'),
    });
  });

  test('an advert of a seat of its own is no clash, nor a clash on another interface', async () => {
    const own = { ...advert, vrid: 11, source: '10.0.9.2', addresses: ['10.0.9.10'] };
    const text =
      'vrrp_instance vip {\n interface eth1\n virtual_router_id 11\n virtual_ipaddress { 10.77.0.50 }\n}';
    const keepalived = { value: { path: 'x', text, files: [] } };
    const told = await tellServices({ ...wellHost, keepalived, adverts: { value: [own] } });
    expect(told.map(({ code }) => code)).not.toContain('seat-vrid-clash');
  });

  test('no remedy of Services has a command that changes the cluster or moves an address', async () => {
    const told = await tellServices(
      services({ ...well, host: { ...running, balancer: null, activity: null } }),
    );
    const lines = told.flatMap((outcome) => ('remedy' in outcome ? outcome.remedy : []));
    expect(lines.length).toBeGreaterThan(0);
    expect(lines.filter((line) => !line.startsWith('#'))).toEqual([]);
  });
});

test('free addresses of pools are those that nobody has, up to a limit', () => {
  const spec = { addresses: ['10.0.9.10-10.0.9.13', 'fd00::/64'] };
  const [pool] = makeObjects({}).pools;
  if (pool === undefined) throw new Error('no pool');
  const free = listFree([{ spec: { ...pool.spec, ...spec } }], new Set(['10.0.9.11']), 5);
  expect(free.map(({ text }) => text)).toEqual(['10.0.9.10', '10.0.9.12', '10.0.9.13', 'fd00::', 'fd00::1']);
});
