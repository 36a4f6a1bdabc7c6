import {
  type Vrrp,
  keepalivedFlags,
  planVrrp,
  renderKeepalived,
  toKeepalivedArguments,
} from '../../../cli/keepalived.ts';
import { readFlags } from '../../../cli/command.ts';
import { expect, describe, test } from '@jest/globals';
import { parseEndpoint, parseAddress } from '../../../lib/net.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { VipnatError } from '../../../lib/errors.ts';

interface Node extends Words {
  readonly vips?: readonly string[];
  readonly endpoints?: readonly string[];
  /** `eth0 10.0.0.11/24` */
  readonly host?: readonly string[];
  readonly runDir?: string;
  readonly hostname?: string;
}

const masters = ['10.0.0.11', '10.0.0.12', '10.0.0.9'];

function planFor({
  vips = ['10.0.0.50'],
  endpoints = [],
  host = ['eth0 10.0.0.11/24'],
  runDir = '/run/vipnat',
  hostname = 'm1',
  ...words
}: Node): Vrrp {
  const { options, problems } = readFlags(keepalivedFlags, words);
  expect(problems).toEqual([]);
  const toVip = (text: string) => parseEndpoint(text, 6443) ?? toEndpoint(text);
  const interfaces = host.map((line) => {
    const [device = '', address = '', prefixLength] = line.split(/[ /]/);
    const { family } = parseAddress(address) ?? { family: 'ipv4' };
    return { device, address, family, prefixLength: Number(prefixLength) };
  });
  const config = { vips: vips.map(toVip), endpoints: endpoints.map((text) => toEndpoint(text)), runDir };
  return planVrrp({ config, options, hostname, interfaces });
}

/** The first instance and the priority, in one. */
const planOne = (node: Node) => {
  const { instances, priority } = planFor(node);
  return { ...instances[0], priority };
};

function problemOf(node: Node): string {
  try {
    planFor(node);
  } catch (error) {
    if (error instanceof VipnatError && error.code === 'CONFIG_INVALID') return error.message;
    throw error;
  }
  return 'none';
}

describe('the interface of a VIP', () => {
  test.each<[string, Node, string]>([
    ['is of its subnet', { host: ['eth0 192.0.2.2/24', 'eth1 10.0.0.11/24', 'cni0 10.244.0.1/24'] }, 'eth1'],
    [
      'is found on the node that holds the VIP, on whatever interface, as on any other',
      { host: ['eth1 10.0.0.50/24', 'eth0 10.0.0.11/24', 'eth0 10.0.0.50/32'] },
      'eth0',
    ],
    [
      'is the one that leads to the masters, where none has the VIP’s subnet',
      { host: ['eth0 192.0.2.2/24', 'eth1 10.1.0.11/24'], peers: ['10.1.0.12'] },
      'eth1',
    ],
    ['is the one asked for', { host: ['eth0 10.0.0.11/24', 'eth1 192.0.2.2/24'], interface: 'eth1' }, 'eth1'],
  ])('%s', (_, node, device) => {
    expect(planOne(node)).toMatchObject({ device });
  });

  const nowhere = '10.0.0.50 is in no subnet of this host';
  const [choose, name] = ['Choose one: --interface eth0', 'Name its interface: --interface eth0'];

  test.each<[string, Node, string]>([
    [
      'two that have the subnet',
      { host: ['eth1 10.0.0.12/24', 'eth0 10.0.0.11/24'] },
      `10.0.0.50 is in the subnets of eth0, eth1. ${choose}`,
    ],
    [
      'two that lead to the masters',
      { host: ['eth1 10.1.0.12/24', 'eth0 10.2.0.11/24'], peers: ['10.1.0.1', '10.2.0.1'] },
      `${nowhere}, and the masters are in those of eth0, eth1. ${choose}`,
    ],
    [
      'none that fits',
      { host: ['eth0 192.0.2.2/24', 'eth1 198.51.100.2/24'] },
      `${nowhere} (it has eth0, eth1). ${name}`,
    ],
    ['none at all', { host: [] }, `${nowhere} (no interface here has an address). ${name}`],
    ['odd names', { host: ['eth0{ 10.0.0.11/24'] }, `${nowhere} (no interface here has an address). ${name}`],
    [
      'another than was asked for',
      { interface: 'eth9' },
      '--interface eth9 has no address on this host: these interfaces have one: eth0',
    ],
  ])('cannot be told with %s: that is said with the way out', (_, node, problem) => {
    expect(problemOf(node)).toBe(problem);
  });
});

const endpoints = masters.map((address) => `${address}:6443`);
const several = ['eth0 10.0.0.99/24', 'eth0 10.0.0.11/24'];
const ownVip = ['eth0 10.0.0.50/24', 'eth0 10.0.0.11/24'];

describe('adverts', () => {
  test.each<[string, Node, string]>([
    ['are multicast where no other master is known', {}, 'multicast'],
    ['are multicast where this node is the only peer', { peers: ['10.0.0.11'] }, 'multicast'],
    ['go to the peers, among whom this node may be', { peers: masters }, '10.0.0.11 to 10.0.0.12 10.0.0.9'],
    ['go to the peers, or may not', { peers: masters.slice(1) }, '10.0.0.11 to 10.0.0.12 10.0.0.9'],
    ['go to the other apiservers of --endpoints', { endpoints }, '10.0.0.11 to 10.0.0.12 10.0.0.9'],
    ['go to --peers before these', { endpoints, peers: ['10.0.0.77'] }, '10.0.0.11 to 10.0.0.77'],
    ['come from what the peers know', { host: several, peers: masters }, '10.0.0.11 to 10.0.0.12 10.0.0.9'],
    ['never come from a VIP that is here', { host: ownVip, peers: ['10.0.0.12'] }, '10.0.0.11 to 10.0.0.12'],
  ])('%s', (_, node, path) => {
    const { unicast } = planOne(node);
    expect(unicast ? `${unicast.source} to ${unicast.peers.join(' ')}` : 'multicast').toBe(path);
  });

  test('do not come from one of several addresses that no peer knows', () => {
    expect(problemOf({ host: several, peers: masters.slice(1) })).toBe(
      'vipnat cannot tell by which address the peers know this node: eth0 has 10.0.0.99, 10.0.0.11. Add the address to --peers',
    );
  });

  test('of a family without peers are multicast, beside unicast of the other', () => {
    const host = ['eth0 10.0.0.11/24', 'eth0 fd00::11/64'];
    const { instances } = planFor({ host, vips: ['10.0.0.50', 'fd00::50'], peers: masters });
    const sources = instances.map(({ unicast }) => unicast?.source ?? 'multicast');
    expect(sources).toEqual(['10.0.0.11', 'multicast']);
  });

  test.each([
    [['10.0.0.50'], "--peers 10.0.0.50 is a virtual IP. Give the masters' own addresses"],
    [['fd00::12'], '--peers fd00::12 is IPv6, but no virtual IP is. Add an IPv6 --vip'],
  ])('cannot go to %j', (peers, problem) => {
    expect(problemOf({ peers })).toBe(problem);
  });
});

test.each([
  ['m1.example.com', 'm1.example.com'],
  ['m1 }', 'vipnat'],
  ['', 'vipnat'],
])('keepalived is told a name, so that it looks up none: %j', (hostname, node) => {
  expect(planFor({ hostname }).node).toBe(node);
});

describe('the priority', () => {
  test('falls by ten with each master, in the order of their addresses as numbers', () => {
    const priorities = masters.map((own) => planOne({ host: [`eth0 ${own}/24`], peers: masters }).priority);
    expect(priorities).toEqual([240, 230, 250]);
  });

  test('is one for all instances, by the IPv4 addresses where both families have masters', () => {
    const host = ['eth0 10.0.0.12/24', 'eth0 fd00::1/64'];
    const peers = [...masters, 'fd00::1', 'fd00::2'];
    expect(planFor({ host, peers, vips: ['fd00::50', '10.0.0.50'] }).priority).toBe(230);
  });

  test('is the same for all where no other master is known, and the one given where one is', () => {
    expect([planFor({}).priority, planFor({ priority: '7', peers: masters }).priority]).toEqual([200, 7]);
  });
});

describe('virtual_router_ids', () => {
  const host = ['eth0 10.0.0.11/16', 'eth0 fd00::11/64'];

  test.each<[string, Node, string]>([
    ['are the last byte and one', { vips: ['10.0.0.50'] }, '10.0.0.50 51'],
    ['may be equal in both families', { vips: ['10.0.0.50', 'fd00::32'] }, '10.0.0.50 51, fd00::32 51'],
    ['are one for an address with two ports', { vips: ['10.0.0.50', '10.0.0.50:443'] }, '10.0.0.50 51'],
    ['are the one given', { vips: ['10.0.0.255', 'fd00::ff'], vrid: ['7'] }, '10.0.0.255 7, fd00::ff 7'],
    ['are those given', { vips: ['10.0.0.50', '10.0.1.50'], vrid: ['7,8'] }, '10.0.0.50 7, 10.0.1.50 8'],
  ])('%s', (_, node, vrids) => {
    const { instances } = planFor({ host, ...node });
    expect(instances.map(({ vip, vrid }) => `${vip.text} ${vrid}`).join(', ')).toBe(vrids);
  });

  test.each<[Node, string]>([
    [
      { vips: ['10.0.0.50', '10.0.1.50', '10.0.0.51'] },
      '10.0.0.50 and 10.0.1.50 would both have virtual_router_id 51, and each needs its own. Give them in the order of --vip: --vrid 51,52,53',
    ],
    [
      { vips: ['10.0.0.50', '10.0.0.51'], vrid: ['255'] },
      '10.0.0.50 and 10.0.0.51 would both have virtual_router_id 255, and each needs its own. Give them in the order of --vip: --vrid 255,1',
    ],
    [
      { vips: ['10.0.0.50', '10.0.0.51', 'fd00::50'], vrid: ['1,2'] },
      '--vrid has 2 numbers, and there are 3 virtual addresses (10.0.0.50, 10.0.0.51, fd00::50). Give one for each, in this order',
    ],
    [
      { vrid: ['1,2'] },
      '--vrid has 2 numbers, and there is 1 virtual address (10.0.0.50). Give one for each, in this order',
    ],
    [
      { vips: ['10.0.0.255'] },
      '10.0.0.255 has no virtual router id: its last byte plus one is 256, and the largest is 255. Choose one with --vrid: a number from 1 to 255 that is free on that network',
    ],
  ])('that clash or do not fit are refused: %j', (node, problem) => {
    expect(problemOf({ host, ...node })).toBe(problem);
  });
});

test('the file that the agent writes is in the folder of --run-dir, and one that the configuration cannot hold is refused', () => {
  expect(planFor({ runDir: '/run/mine' }).trackFile).toBe('/run/mine/keepalived/serving');
  expect(() => planFor({ runDir: '/run/a "b' })).toThrow(
    expect.objectContaining({ code: 'CONFIG_INVALID', message: expect.stringContaining('--run-dir') }),
  );
});

describe('the configuration', () => {
  const host = ['eth0 10.0.0.11/24', 'eth0 fd00::11/64'];
  const render = (node: Node = {}) => renderKeepalived(planFor({ host, ...node }));

  test.each<[string, Node]>([
    ['one VIP', {}],
    ['one VIP and peers', { peers: masters }],
    ['VIPs of both families', { vips: ['10.0.0.50', 'fd00::50'] }],
    ['several VIPs, two of them at one address', { vips: ['10.0.0.50', '10.0.0.50:443', '10.0.0.51'] }],
  ])('of %s starts nodes as BACKUPs that take the VIP from nobody, and leave it by a fault', (_, node) => {
    const text = render(node);
    const count = (pattern: RegExp) => text.match(pattern)?.length ?? 0;
    const instances = count(/^vrrp_instance /gm);
    expect(instances).toBeGreaterThan(0);
    for (const line of [/^ {2}state BACKUP$/gm, /^ {2}nopreempt$/gm, /^ {2}track_file \{\n {4}serving$/gm])
      expect(count(line)).toBe(instances);
    expect(text).toMatch(/file "\/run\/vipnat\/keepalived\/serving"\n {2}weight 0\n {2}init_file 0\n/);
    expect(text).toMatch(/vrrp_garp_master_refresh 60/);
    // Or it would wait for DNS.
    expect(text).toMatch(/^ {2}router_id m1$/m);
  });

  test('gives each address one instance, and several one group', () => {
    const text = render({ vips: ['10.0.0.50', '10.0.0.50:443', '10.0.0.51'] });
    expect(text.match(/^vrrp_instance .*/gm)).toEqual([
      'vrrp_instance vip-10.0.0.50 {',
      'vrrp_instance vip-10.0.0.51 {',
    ]);
    const group = 'vrrp_sync_group vipnat {\n  group {\n    vip-10.0.0.50\n    vip-10.0.0.51\n  }\n}\n';
    expect(text.endsWith(group)).toBe(true);
    const removal = /notify_(?:backup|fault|stop) ".* flush table local proto 118 exact 10\.0\.0\.5[01]"$/gm;
    expect(text.match(removal)).toHaveLength(6);
    expect(render()).not.toMatch(/vrrp_sync_group|unicast/);
  });

  test.each([
    ['VRRPv3 where adverts need it', { advert: '300ms' }, /vrrp_version 3\n[^]*advert_int 0.3\n/],
    ['else version 2', {}, /vrrp_version 2\n[^]*advert_int 1\n/],
    [
      'what was found out',
      { peers: masters },
      / {2}interface eth0\n {2}virtual_router_id 51\n {2}priority 240\n[^]* {2}unicast_src_ip 10.0.0.11\n {2}unicast_peer \{\n {4}10.0.0.12\n {4}10.0.0.9\n {2}\}\n/,
    ],
  ])('has %s', (_, node, words) => {
    expect(render(node)).toMatch(words);
  });
});

type Words = Partial<Record<keyof typeof keepalivedFlags, string | readonly string[]>>;

describe('the switches of vipnat keepalived', () => {
  test('come to arguments that are read as the same', () => {
    const words = { interface: 'eth0', peers: ['10.0.0.11,fd00::11'], vrid: ['51'], priority: '9' };
    for (const given of [{}, { ...words, advert: '0.3s', output: '/x' }, words]) {
      const { options } = readFlags(keepalivedFlags, given);
      const flags = toKeepalivedArguments(options).map((text) => /^--([a-z]+)=(.*)$/.exec(text)?.slice(1));
      const read = flags.map(([name = '', one = ''] = []) => [name, /peers|vrid/.test(name) ? [one] : one]);
      expect(readFlags(keepalivedFlags, Object.fromEntries(read) as Words).options).toEqual(options);
    }
  });

  const examples = {
    ...{ interface: 'eth0', peers: '10.0.0.11,10.0.0.12,10.0.0.13', vrid: '51', priority: '110' },
    advert: '300ms',
  };
  const noInterface = 'is not a name of an interface';
  const noVrid = 'is not a whole number from 1 to 255';

  test.each<[keyof typeof examples, string, string]>([
    ['interface', 'eth0 {', `"eth0 {" ${noInterface}`],
    ['interface', 'eth0\n}', `"eth0\\n}" ${noInterface}`],
    ['interface', '-x', `-x ${noInterface}`],
    ['interface', '', `"" ${noInterface}`],
    ['interface', 'sixteen-letters-', `sixteen-letters- ${noInterface}`],
    ['peers', '10.0.0.11,m2', 'm2 is not an IP address'],
    ['peers', 'fe80::1', 'fe80::1 is a link-local address: it means another host on each link'],
    ['vrid', '0', `0 ${noVrid}`],
    ['vrid', '51,256', `256 ${noVrid}`],
    ['vrid', '0x33', `0x33 ${noVrid}`],
    ['priority', '255', '255 is not a whole number from 1 to 254'],
    ['advert', '1', '1 is not a duration with its unit, ms or s'],
    ['advert', '50ms', '50ms is not between 100ms and 10s'],
    ['advert', '305ms', '305ms is not a multiple of 10ms'],
  ])('are refused with an example: --%s %j', (flag, text, complaint) => {
    const isList = flag === 'peers' || flag === 'vrid';
    expect(readFlags(keepalivedFlags, { [flag]: isList ? [text] : text }).problems).toEqual([
      `--${flag} ${complaint}. Example: --${flag} ${examples[flag]}`,
    ]);
  });
});
