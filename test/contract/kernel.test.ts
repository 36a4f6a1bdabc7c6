import { describeKernels, everything } from './kinds.ts';
import { test, expect } from '@jest/globals';
import { families, type Endpoint, formatEndpoint } from '../../lib/net.ts';
import { iptablesDialects, type Trigger } from '../../lib/kernel/port.ts';
import { watchChange, watchQuiet, slowQuietMs } from './watching.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { understandRules } from '../../agent/observe/observe.ts';
import { toEndpoint } from '../support/fakes/endpoints.ts';
import { foreignRules } from './rule-shapes.ts';

describeKernels((subject) => {
  test('a new namespace has no rules, no IPVS, no proxy and its loopback addresses, and reading registers no table', async () => {
    await subject().kernel.read(everything);
    expect(await subject().kernel.read(everything)).toEqual({
      iptables: families.flatMap((family) =>
        iptablesDialects.map((dialect) => ({ family, dialect, text: '' })),
      ),
      addresses: [
        { family: 'ipv4', address: '127.0.0.1', device: 'lo' },
        { family: 'ipv6', address: '::1', device: 'lo' },
      ],
      // As on the host that it was made on.
      forwarding: { ipv4: expect.any(Boolean), ipv6: expect.any(Boolean) },
      ipvs: null,
      nftTables: families.map((family) => ({ family, text: '' })),
      nftProxies: [],
      closedDevices: [],
      advertised: [],
      unread: [],
    });
  });

  test.each(['10.0.0.50', 'fd00::50'])(
    '%s triggers when it comes and when it goes, and is read meanwhile',
    async (address) => {
      const watch = (act: () => Promise<void>) => watchChange(subject(), 'addresses', act);
      expect(await watch(() => subject().addAddress(address))).toEqual(['addresses']);
      const { addresses } = await subject().kernel.read(everything);
      expect(addresses).toContainEqual(expect.objectContaining({ address, device: 'lo' }));
      expect(await watch(() => subject().removeAddress(address))).toEqual(['addresses']);
      expect((await subject().kernel.read(everything)).addresses).toHaveLength(2);
    },
  );

  test.each(['three-endpoints', 'client-ip-affinity', 'no-endpoints'])(
    "of the nftables proxy's table (%s) the service's part is read",
    async (state) => {
      await subject().programNftProxy(state);
      const { nftProxies } = await subject().kernel.read(everything);
      expect(nftProxies.map(({ family }) => family)).toEqual(['ipv4']);
      expect(nftProxies.flatMap(({ objects }) => objects).map(nameObject)).toEqual(nftObjects[state]);
    },
  );

  test.each(families)('%s is forwarded when it is switched on, and not when it is off', async (family) => {
    const { kernel } = subject();
    const other = family === 'ipv4' ? 'ipv6' : 'ipv4';
    await subject().disableForwarding(other);
    await subject().disableForwarding(family);
    expect((await kernel.read(everything)).forwarding).toEqual({ ipv4: false, ipv6: false });
    await kernel.enableForwarding(family);
    const { forwarding } = await kernel.read(everything);
    expect([forwarding[family], forwarding[other]]).toEqual([true, false]);
  });

  test.each(families)(
    '%s that somebody else switches off and on triggers each time, and an own write does not',
    async (family) => {
      const { kernel } = subject();
      const disableForwarding = () => subject().disableForwarding(family);
      await disableForwarding();
      await kernel.enableForwarding(family);
      const watch = (act: () => Promise<void>) => watchChange(subject(), 'forwarding', act);
      expect(await watch(disableForwarding)).toEqual(['forwarding']);
      expect(await watch(() => subject().enableForwarding(family))).toEqual(['forwarding']);
      await disableForwarding();
      const enable = () => kernel.enableForwarding(family);
      expect(await watchQuiet(subject(), enable, slowQuietMs)).toEqual([]);
      // Taken back before anybody has looked: a comparison of looks alone would see no change.
      await disableForwarding();
      const takeBack = async () => {
        await kernel.enableForwarding(family);
        await disableForwarding();
      };
      expect(await watch(takeBack)).toEqual(['forwarding']);
    },
    60_000,
  );

  test('a tool that hangs is killed with what it started, and its rules are unread: TOOL_TIMED_OUT', async () => {
    await subject().breakTool('iptables-nft-save', 'hanging');
    const { iptables, unread } = await subject().kernel.read(everything);
    expect(iptables).toHaveLength(3);
    expect(unread).toMatchObject([
      { family: 'ipv4', dialect: 'nft', tables: ['nat', 'filter', 'mangle'], code: 'TOOL_TIMED_OUT' },
    ]);
    expect(await subject().countChildren()).toBe(0);
  });

  test('of an nft that prints no JSON the nftables proxy is unread: TOOL_OUTPUT_UNEXPECTED', async () => {
    await subject().breakTool('nft', 'garbage');
    const { nftProxies, unread } = await subject().kernel.read(everything);
    expect(nftProxies).toEqual([]);
    expect(unread[0]).toMatchObject({
      ...{ family: 'ipv4', dialect: 'nftables', tables: ['kube-proxy'], code: 'TOOL_OUTPUT_UNEXPECTED' },
    });
  });

  test('on a host with neither iptables nor nft all of iptables is unread: TOOL_MISSING', async () => {
    await subject().breakTool('nft', 'missing');
    await subject().breakTool('iptables-legacy-save', 'missing');
    await subject().breakTool('iptables-nft-save', 'missing');
    const { unread } = await subject().kernel.read(everything);
    expect(unread).toContainEqual(
      expect.objectContaining({ family: 'ipv4', dialect: 'nft', code: 'TOOL_MISSING' }),
    );
  });

  test.each(iptablesDialects)(
    'a rule whose match the tool lacks takes its own table along and no other (%s)',
    async (dialect) => {
      await subject().run('ipv6', dialect, everyTable);
      await subject().loseMatch('ipv6', dialect, 'mangle');
      const { iptables, unread } = await subject().kernel.read(everything);
      const seen = iptables.find((one) => one.family === 'ipv6' && one.dialect === dialect);
      expect([...(seen?.text.matchAll(/^\*(.*)/gm) ?? [])].map(([, table]) => table).sort()).toEqual([
        'filter',
        'nat',
      ]);
      expect(unread).toMatchObject([{ family: 'ipv6', dialect, tables: ['mangle'], code: 'TOOL_FAILED' }]);
    },
  );

  test.each(['nat', 'filter', 'mangle'] as const)(
    'of tables that nft wrote strange rules to %s is unread, and no other',
    async (table) => {
      await subject().run('ipv4', 'nft', everyTable);
      await subject().addStrangeRule('ipv4', table);
      const { rulesets, unread } = understandRules(await subject().kernel.read(everything));
      const seen = rulesets.find((one) => one.family === 'ipv4' && one.dialect === 'nft');
      expect([...(seen?.tables.keys() ?? []), ...(seen?.unread ?? [])].sort()).toEqual([
        'filter',
        'mangle',
        'nat',
      ]);
      expect(seen?.unread).toEqual([table]);
      expect(unread).toMatchObject([{ tables: [table], code: 'TABLE_INCOMPATIBLE' }]);
    },
  );

  test.each([
    ['ipv4', '10.0.0.50', '10.0.0.51', '10.0.0.12', '10.0.0.13'],
    ['ipv6', '[fd00::50]', '[fd00::51]', '[fd00::12]', '[fd00::13]'],
  ])('connections of a VIP and a backend are forgotten, and no other (%s)', async (_family, ...hosts) => {
    const [vip, otherVip, backend, otherBackend] = hosts.map((host) => toEndpoint(`${host}:6443`)) as [
      Endpoint,
      Endpoint,
      Endpoint,
      Endpoint,
    ];
    const flows = [
      { vip, backend, isHalfOpen: false },
      { vip, backend, isHalfOpen: true },
      { vip, backend, isHalfOpen: false },
      { vip, backend: otherBackend, isHalfOpen: false },
      { vip: otherVip, backend, isHalfOpen: false },
    ];
    await subject().addAddress(vip.address);
    for (const [number, flow] of flows.entries()) await subject().trackFlow(flow, number);
    const { kernel } = subject();
    expect([...(await kernel.countFlows(vip))].toSorted()).toEqual([
      [formatEndpoint(backend), 2],
      [formatEndpoint(otherBackend), 1],
    ]);
    expect(await kernel.resetFlows({ vip, backend, isHalfOpen: true })).toBe(1);
    expect(await kernel.resetFlows({ vip, backend, isHalfOpen: false })).toBe(2);
    expect(await kernel.resetFlows({ vip, backend, isHalfOpen: false })).toBe(0);
    expect(await kernel.resetFlows({ vip, backend: otherBackend, isHalfOpen: false })).toBe(1);
    expect(await kernel.resetFlows({ vip: otherVip, backend, isHalfOpen: false })).toBe(1);
  });

  test('a change by iptables-legacy triggers, also where its lock is mounted into a container', async () => {
    await subject().mountLock();
    const change = () => subject().run('ipv4', 'legacy', foreignRules);
    expect(await watchChange(subject(), 'xtables-lock', change)).toEqual(['xtables-lock']);
  });

  test('a closed watch calls nobody back and leaves no process', async () => {
    const triggers: Trigger[] = [];
    const watch = subject().kernel.watch((trigger) => triggers.push(trigger));
    await watch.ready;
    await watch.stop();
    await watch.stop();
    await subject().run('ipv4', 'nft', foreignRules);
    await subject().run('ipv4', 'legacy', foreignRules);
    await subject().disableForwarding('ipv4');
    await subject().enableForwarding('ipv4');
    await subject().disableForwarding('ipv4');
    await sleep(slowQuietMs);
    expect(triggers).toEqual([]);
    expect(await subject().countChildren()).toBe(0);
  });
});

/** A rule in each of the tables that are read. */
const everyTable = ['nat', 'filter', 'mangle']
  .map((table) => `*${table}\n-A OUTPUT -j ACCEPT\nCOMMIT\n`)
  .join('');

const serviceChain = everything.nftServiceChain;

const endpointChains = ['2P7R2UQU', 'VLWO454Z', '7Q7Y2BDP'].flatMap((hash, index) => {
  const chain = `endpoint-${hash}-default/kubernetes/tcp/https__10.77.0.1${index + 1}/6443`;
  return [`chain ${chain}`, `rule in ${chain}`, `rule in ${chain}`];
});

const serviceRule = `rule in ${serviceChain}`;

const nftObjects: Record<string, readonly string[]> = {
  'three-endpoints': ['map service-ips', 'map no-endpoint-services', `chain ${serviceChain}`, serviceRule],
  'client-ip-affinity': [
    'map service-ips',
    'map no-endpoint-services',
    `chain ${serviceChain}`,
    ...Array.from({ length: 4 }, () => serviceRule),
    ...endpointChains,
    'set affinity-2P7R2UQU-default/kubernetes/tcp/https__10.77.0.11/6443',
  ],
  'no-endpoints': ['map service-ips', 'map no-endpoint-services', `chain ${serviceChain}`],
};

function nameObject(object: unknown): string {
  const { map, chain, rule, set } = object as Record<string, { name: string; chain: string } | undefined>;
  if (set !== undefined) return `set ${set.name}`;
  if (rule !== undefined) return `rule in ${rule.chain}`;
  return map === undefined ? `chain ${chain?.name ?? '?'}` : `map ${map.name}`;
}
