import { listTexts, toText } from './host.ts';
import { testAgent, play } from './timeline.ts';
import { test, expect, describe, beforeEach, afterEach } from '@jest/globals';
import { type ApiView, type ClusterApi, toApiView, ListedApi } from '../../../agent/api.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { observeAndAssess } from '../../../agent/read-host.ts';
import { restoreCaptures } from '../../support/agent/captured-host.ts';
import { nobodyProbes } from '../../support/fakes/health.ts';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';
import { emptyState } from '../../../agent/decide/decision.ts';
import { makeSlice, makeService } from '../../support/kube-api/kube-store.ts';
import type { EndpointSlice, Service } from '../../../lib/kubernetes/client.ts';
import { formatEndpoint } from '../../../lib/net.ts';
import { useCertificates, ApiWorld, accessByVip, three, eventually } from '../../support/api/api-world.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { ApiRoute } from '../../../lib/kubernetes/route.ts';
import { vips } from '../../support/network/layout.ts';

const masters = listTexts('m1 m2 m3');
const source = "the API's EndpointSlice kubernetes";

testAgent({
  'an apiserver that the API lists and kube-proxy does not is balanced over as soon as it has proven itself, remembered, and by kube-proxy once that has it':
    'api m1 m2 m3; wait 2000; targets proxy; api m1 m2 m3 m4; wait 100; targets m1 m2 m3; wait 4900; targets m1 m2 m3 m4;' +
    "1 line of info kube-proxy's list is out of date: it names 3 apiservers \\(.*\\), and 4 apiservers are usable \\(the API's EndpointSlice kubernetes\\);" +
    'saved m1 m2 m3, m1 m2 m3 m4; proxy m1 m2 m3 m4; wait 2000; targets proxy',
  'an apiserver that the API no longer lists gets no connection, though kube-proxy still has it':
    'api m1 m2 m3; wait 2000; api m1 m2; wait 100; targets m1 m2',
  'an apiserver that is back and still drained or warming gets no connection by kube-proxy, which hears of it as vipnat does':
    'api m1 m2 m3; m3 failing; wait 3000; api m1 m2; proxy m1 m2; m3 refusing; wait 60000; targets proxy; m3 failing;' +
    'api m1 m2 m3; wait 100; proxy m1 m2 m3; only m1 m2 for 30000; m3 healthy; wait 10000; targets proxy',
  'an API that lists none is none: the next source counts, and the set is never emptied':
    'api m1 m2 m3; wait 2000; api none; wait 120000; targets proxy',
  'losing the API changes nothing in the kernel, and neither does its return (I10)':
    'api m1 m2 m3; wait 2000; api m1 m2 m3 m4; wait 5000; mark; api lost; wait 600000; api regained; wait 60000;' +
    'writes 0; no line',
  'a lost API leaves its word until kube-proxy hears of something else: that is newer':
    'api m1 m2 m3 m4; wait 5000; api m1 m2 m3; wait 5000; targets proxy; api lost; wait 60000; proxy m2 m3 m4;' +
    'wait 10000; targets proxy; api regained; wait 100; targets m2 m3',
});

test('an apiserver that goes down is named to the API as one not to follow, until it is back', async () => {
  const down = await play('api m1 m2 m3; wait 2000; m1 refusing; wait 1000');
  expect([...down.running.api.unwell]).toEqual(masters.slice(0, 1));
  down.set(toText('m1'), 'healthy');
  await down.clock.advance(10_000);
  expect([...down.running.api.unwell]).toEqual([]);
});

test('what the API lists and no apiserver can be at gets no connection, and is said once', async () => {
  const host = await play('api m1 m2 m3; wait 2000');
  const hostile = ['10.0.0.50:6443', '127.0.0.1:6443', '224.0.0.1:6443', '169.254.1.1:6443'];
  host.running.api.list('ipv4', [...hostile, ...masters], { refused: ['"x" is no IPv4 address'] });
  await host.clock.advance(120_000);
  expect(host.targets).toBe('proxy');
  expect(host.lines('warn')).toEqual([
    `10.0.0.50:6443 is the address of a virtual IP, so vipnat does not use it as an apiserver (${source}). Set --advertise-address of each kube-apiserver to its own host's address`,
    `127.0.0.1:6443 is a loopback address, so vipnat does not use it as an apiserver (${source})`,
    `169.254.1.1:6443 is a link-local address, so vipnat does not use it as an apiserver (${source})`,
    `224.0.0.1:6443 is a multicast address, so vipnat does not use it as an apiserver (${source})`,
    '"x" is no IPv4 address',
  ]);
});

describe('the reason', () => {
  const said = (more: Partial<ApiView> = {}): ClusterApi => ({
    getView: () => ({
      endpoints: { ipv4: { value: masters.map(toEndpoint), seenIn: source } },
      clusterIps: {},
      affinitySeconds: null,
      refused: [],
      isCurrent: true,
      ...more,
    }),
  });
  const lookAt = (captures: readonly string[], api: ClusterApi, answer: string | null = null) =>
    observeAndAssess(
      {
        kernel: restoreCaptures(captures),
        askProxyMode: () => Promise.resolve(answer),
        health: nobodyProbes,
        api,
      },
      ordinaryConfig,
      emptyState,
    );

  test.each<[string, string[], RegExp]>([
    [
      'service-chain',
      ['iptables-nft-save.three-endpoints.txt'],
      /^kube-proxy sends .* to the same 3 apiservers \(.*\); listed in the API's EndpointSlice kubernetes$/,
    ],
    [
      'direct',
      ['iptables-nft-save.two-endpoints.txt'],
      /^kube-proxy's list is out of date: it names 2 apiservers \(.*\), and 3 apiservers are usable \(the API's EndpointSlice kubernetes\)$/,
    ],
    ['direct', [], /^this host runs no kube-proxy \(.*\); listed in the API's EndpointSlice kubernetes$/],
  ])('names the API as the source: %s', async (mode, captures, reason) => {
    const { decisions } = await lookAt(captures, said());
    expect(decisions).toMatchObject([{ mode, reason: expect.stringMatching(reason) }]);
  });

  test("the Service's ClusterIP tells the virtual server from others, where none is configured", async () => {
    const captures = ['iptables-legacy-save.ipvs-three-endpoints.txt', 'proc-net-ip_vs.three-endpoints.txt'];
    const seen = (clusterIps: ApiView['clusterIps']) => lookAt(captures, said({ clusterIps }), 'ipvs');
    expect((await seen({ ipv4: '10.96.0.1' })).decisions[0]?.mode).toBe('cluster-ip');
    expect((await seen({ ipv4: '10.96.0.99' })).decisions[0]?.reason).toContain(
      'no TCP virtual server 10.96.0.99:443',
    );
  });
});

const slice = (addresses: readonly string[], more: object = {}, fields: object = {}) =>
  ({ ...makeSlice(addresses, more), ...fields }) as unknown as EndpointSlice;
const service = (spec: object = {}) => makeService(spec) as unknown as Service;

const view = (slices: readonly EndpointSlice[]) => toApiView(slices, null, true);
const listed = (slices: readonly EndpointSlice[], family: 'ipv4' | 'ipv6' = 'ipv4') =>
  view(slices).endpoints[family]?.value.map(formatEndpoint);

describe('EndpointSlices', () => {
  test('of both families are told apart, and several of one are joined', () => {
    const slices = [
      slice(['10.77.0.12'], { name: 'kubernetes-b' }),
      slice(['fd77::11'], { name: 'kubernetes-6', addressType: 'IPv6' }),
      slice(['10.77.0.11', '10.77.0.12'], { name: 'kubernetes' }),
    ];
    expect(listed(slices)).toEqual(['10.77.0.11:6443', '10.77.0.12:6443']);
    expect(listed(slices, 'ipv6')).toEqual(['[fd77::11]:6443']);
    expect(view(slices).endpoints.ipv4?.seenIn).toBe("the API's EndpointSlices kubernetes, kubernetes-b");
    expect(view(slices).endpoints.ipv6?.seenIn).toBe("the API's EndpointSlice kubernetes-6");
  });

  test('count as ready unless they say otherwise, as the API has it', () => {
    const endpoints = [
      { addresses: ['10.77.0.11'] },
      { addresses: ['10.77.0.12'], conditions: {} },
      { addresses: ['10.77.0.13'], conditions: { ready: null } },
      { addresses: ['10.77.0.14'], conditions: { ready: false } },
    ];
    expect(listed([slice([], {}, { endpoints })])).toEqual([11, 12, 13].map((at) => `10.77.0.${at}:6443`));
  });

  test.each([
    ['none', { endpoints: null }],
    ['only unready ones', { endpoints: [{ addresses: ['10.77.0.11'], conditions: { ready: false } }] }],
  ])('with %s name none, and nothing is refused', (_what, fields) => {
    expect(view([slice([], {}, fields)])).toMatchObject({
      endpoints: { ipv4: { value: [], seenIn: "the API's EndpointSlice kubernetes" } },
      refused: [],
    });
  });

  /** `https:6443/UDP`, with blanks between several. */
  const readPorts = (text: string) =>
    (text.match(/\S+/g) ?? []).map((port) => {
      const [, name, number, protocol] = /^(\w*):(\d+)(?:\/(\w+))?$/.exec(port) ?? [];
      return { name, port: Number(number), ...(protocol === undefined ? {} : { protocol }) };
    });

  test.each<[string, string, string[]]>([
    ['named https', 'metrics:1 https:6444', ['10.77.0.11:6444']],
    ['the only one', ':6445', ['10.77.0.11:6445']],
    ['one of several', 'a:1 b:2', []],
    ['UDP', 'https:6443/UDP', []],
    ['0', 'https:0', []],
    ['65536', 'https:65536', []],
    ['none', '', []],
  ])('with a port that is %s', (_what, ports, apiservers) => {
    const slices = [slice(['10.77.0.11'], {}, { ports: readPorts(ports) })];
    expect(listed(slices)).toEqual(apiservers);
    const refused = "vipnat does not use the API's EndpointSlice kubernetes: it has no TCP port named https";
    expect(view(slices).refused).toEqual(apiservers.length === 0 ? [refused] : []);
  });

  test.each([
    ['10.77.0.300', '"10.77.0.300" is not an IPv4 address'],
    ['fd77::11', '"fd77::11" is not an IPv4 address'],
    ['m1.example.com', '"m1.example.com" is not an IPv4 address'],
    ['10.77.0.11; -j ACCEPT\n*nat', '"10.77.0.11; -j ACCEPT *nat" is not an IPv4 address'],
    ['', '"" is not an IPv4 address'],
  ])('with an address that is none are used without it: %j', (address, complaint) => {
    const slices = [slice([address, '10.77.0.11'])];
    expect(listed(slices)).toEqual(['10.77.0.11:6443']);
    expect(view(slices).refused).toEqual([
      `${complaint}, so vipnat does not use it as an apiserver (the API's EndpointSlice kubernetes)`,
    ]);
  });

  test('of names are refused as a whole', () => {
    expect(view([slice(['m1.example.com'], { addressType: 'FQDN' })])).toMatchObject({
      endpoints: {},
      refused: ["vipnat does not use the API's EndpointSlice kubernetes: it has addresses of type FQDN"],
    });
  });
});

describe('the Service', () => {
  test.each<[string, object, object]>([
    ['one family', {}, { ipv4: '10.96.0.1' }],
    ['both', { clusterIPs: ['fd00:10:96:0::1', '10.96.0.1'] }, { ipv4: '10.96.0.1', ipv6: 'fd00:10:96::1' }],
    ['none', { clusterIP: 'None', clusterIPs: ['None'] }, {}],
    ['an old API', { clusterIPs: undefined }, { ipv4: '10.96.0.1' }],
    ['what no Service has', { clusterIP: '127.0.0.1', clusterIPs: ['127.0.0.1'] }, {}],
  ])('has its ClusterIPs: %s', (_what, spec, clusterIps) => {
    expect(toApiView(null, service(spec), true).clusterIps).toEqual(clusterIps);
  });

  const sticky = (timeoutSeconds: number, sessionAffinity = 'ClientIP') => ({
    sessionAffinity,
    sessionAffinityConfig: { clientIP: { timeoutSeconds } },
  });

  test.each<[object, number | null, number]>([
    [{}, null, 0],
    [{ sessionAffinity: 'ClientIP' }, 10_800, 0],
    [sticky(60), 60, 0],
    [sticky(0), 10_800, 1],
    [sticky(86_401), 10_800, 1],
    [sticky(60, 'None'), null, 0],
  ])('has its session affinity: %j', (spec, seconds, refusals) => {
    const { affinitySeconds, refused } = toApiView(null, service(spec), true);
    expect([affinitySeconds, refused.length]).toEqual([seconds, refusals]);
  });
});

const certificates = useCertificates();

let world: ApiWorld;
let problems: string[] = [];
beforeEach(async () => {
  world = new ApiWorld(certificates());
  problems = [];
  await world.startServer();
  await world.startServer();
});
afterEach(() => world.close());

/** One that a command asks. */
function createListedApi(clock = new FakeClock()) {
  const access = accessByVip(certificates().authority);
  const route = new ApiRoute(() => Promise.resolve(access), [toEndpoint(`${vips.ipv4}:6443`)]);
  const onProblem = ({ message }: Error) => problems.push(message);
  const endpoints = world.servers.map(({ port }, index) => toEndpoint(`127.0.0.${index + 1}:${port}`));
  return {
    api: new ListedApi({ route, clock, onProblem }),
    known: { endpoints, localAddresses: new Set<string>() },
  };
}

test('a command lists once, however often it looks', async () => {
  const { api, known } = createListedApi();
  const view = await api.getView(known);
  expect(view?.endpoints.ipv4?.value.map(formatEndpoint)).toEqual(three);
  expect(await api.getView(known)).toBe(view);
  expect(world.servers.map(({ questions }) => questions.length)).toEqual([2, 0]);
  expect(problems).toEqual([]);
});

test('asks the next apiserver when one does not answer as it should', async () => {
  const { api, known } = createListedApi();
  if (world.servers[0] !== undefined) world.servers[0].manner = 'failing';
  expect((await api.getView(known))?.clusterIps).toEqual({ ipv4: '10.96.0.1' });
  expect(problems).toEqual([]);
});

test('lists the apiservers where the Service may not be read, with one sentence', async () => {
  const { api, known } = createListedApi();
  for (const server of world.servers) server.forbids = 'Service';
  const view = await api.getView(known);
  expect(view?.endpoints.ipv4?.value.map(formatEndpoint)).toEqual(three);
  expect(problems).toEqual([expect.stringContaining('may not read the Service kubernetes')]);
});

test.each(['forbidding', 'page'] as const)('goes on without the API, with a sentence: %s', async (manner) => {
  const { api, known } = createListedApi();
  for (const server of world.servers) server.manner = manner;
  expect([await api.getView(known), await api.getView(known), problems.length]).toEqual([null, null, 1]);
});

test('goes on after two seconds where nobody answers, with one sentence', async () => {
  const clock = new FakeClock();
  const { api, known } = createListedApi(clock);
  for (const server of world.servers) server.manner = 'hanging';
  const view = api.getView(known);
  for (const { questions } of world.servers) {
    await eventually('both kinds are asked for', () => questions.length === 2);
    await clock.advance(1000);
  }
  expect([await view, clock.now(), problems.length]).toEqual([null, 2000, 1]);
});
