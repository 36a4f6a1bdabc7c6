import { readFileSync } from 'node:fs';
import { describe, test, expect } from '@jest/globals';
import {
  type ServiceQuestion,
  findKubernetesServer,
  type ProxyModeEvidence,
  decideProxyMode,
  type ServiceState,
  emptyServiceState,
  createProxyAbsence,
} from '../../../../agent/observe/kube-proxy.ts';
import { parseIpvs } from '../../../../lib/kube-proxy/ipvs.ts';
import { type Endpoint, formatEndpoint } from '../../../../lib/net.ts';
import type { IptablesDialect } from '../../../../lib/kernel/port.ts';
import {
  type IptablesProxyView,
  readIptablesProxy,
  kubernetesService,
  type ServicePort,
} from '../../../../lib/kube-proxy/read.ts';
import { parseSave } from '../../../../lib/iptables/rules.ts';
import type { Observation } from '../../../../agent/observe/observe.ts';
import { restoreCaptures, lookOnce } from '../../../support/agent/captured-host.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { rememberApiservers } from '../../../../agent/state.ts';
import { webService } from '../../../support/kube-proxy/rules.ts';
import { listTexts } from '../host.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { testAgent } from '../timeline.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';

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

function readView(name: string, dialect: IptablesDialect): IptablesProxyView {
  const text = readFileSync(new URL(`../../../support/fixtures/captures/${name}`, import.meta.url), 'utf8');
  return readIptablesProxy(parseSave({ family: 'ipv4', dialect, text }), kubernetesService);
}

const live = readView('iptables-nft-save.three-endpoints.txt', 'nft');
const unhooked = { ...live, isHooked: false };
const withoutEndpoints = readView('iptables-nft-save.no-endpoints.txt', 'nft');
const ipvs = readView('iptables-legacy-save.ipvs-three-endpoints.txt', 'legacy');

type Evidence = Partial<ProxyModeEvidence>;

const decide = (result: Evidence) =>
  decideProxyMode({
    asked: null,
    configured: 'auto',
    iptables: [],
    hasIpvsServer: false,
    hasNftEntryRule: false,
    ...result,
  });

const everything = { iptables: [ipvs, live], hasIpvsServer: true, hasNftEntryRule: true };

describe('decideProxyMode', () => {
  const edge = 'nat KUBE-SERVICES (iptables-nft)';
  const table = 'nft table ip kube-proxy';
  const hook = 'nat PREROUTING jumps to KUBE-SERVICES';
  const flushed = { ...withoutEndpoints, isHooked: false };
  const forEach = (values: readonly string[], toRow: (value: string) => [string, Evidence, string]) =>
    Object.fromEntries(
      values.map(toRow).map(([title, evidence, mode]) => [title, [evidence, mode] as const]),
    );

  test.each(
    Object.entries<readonly [Evidence, string]>({
      ...forEach(['iptables', 'ipvs', 'nftables', 'none'], (configured) => [
        `the configuration (${configured}) beats all else`,
        { ...everything, configured: configured as ProxyModeEvidence['configured'], asked: 'ipvs' },
        `${configured}: --proxy-mode`,
      ]),
      ...forEach(['iptables', 'ipvs', 'nftables'], (asked) => [
        `the word of kube-proxy (${asked}) beats what it left behind`,
        { ...everything, asked },
        `${asked}: reported at 127.0.0.1:10249`,
      ]),
      ...forEach(['', 'userspace', 'none', 'IPVS', '404 page not found'], (asked) => [
        `any other answer ("${asked}") is no answer`,
        { ...everything, asked },
        `iptables: ${edge}`,
      ]),
      'a hooked edge beats what ipvs and nftables mode left behind': [everything, `iptables: ${edge}`],
      'an edge that no packet reaches loses to a live nftables one': [
        { iptables: [unhooked], hasNftEntryRule: true },
        `nftables: ${table}`,
      ],
      'an edge that no packet reaches loses to a live virtual server': [
        { iptables: [unhooked, ipvs], hasIpvsServer: true },
        'ipvs: /proc/net/ip_vs',
      ],
      'nftables beats ipvs: packets meet its DNAT first': [
        { iptables: [ipvs], hasIpvsServer: true, hasNftEntryRule: true },
        `nftables: ${table}`,
      ],
      'an edge that no packet reaches is still better than nothing': [
        { iptables: [unhooked] },
        `iptables: ${edge}`,
      ],
      "a virtual server without kube-proxy's rules is somebody else's": [
        { hasIpvsServer: true },
        'none: no trace of kube-proxy',
      ],
      'without rules for the service the hooked chains tell iptables': [
        { iptables: [withoutEndpoints] },
        `iptables: ${hook}`,
      ],
      'without rules for the service the hooked chains tell ipvs': [{ iptables: [ipvs] }, `ipvs: ${hook}`],
      'chains without rules are a kube-proxy whose tables somebody flushed': [
        { iptables: [flushed] },
        "iptables: kube-proxy's chains exist, but have no rules",
      ],
      'nothing is none': [{}, 'none: no trace of kube-proxy'],
    }),
  )('%s', (_, [evidence, mode]) => {
    const { value, seenIn } = decide(evidence);
    expect(`${value}: ${seenIn}`).toBe(mode);
  });
});

/** A look at a capture in which kube-proxy is read for that Service. */
async function observe(capture: string, service: ServicePort): Promise<Observation> {
  const kernel = restoreCaptures([`iptables-nft-save.${capture}.txt`]);
  const { observation } = await lookOnce(kernel, ordinaryConfig);
  const iptables = observation.rulesets
    .filter(({ family }) => family === 'ipv4')
    .map((ruleset) => ({ dialect: ruleset.dialect, view: readIptablesProxy(ruleset, service) }));
  return {
    ...observation,
    views: { ...observation.views, ipv4: { ...observation.views.ipv4, iptables } },
  };
}

/** What is left of a Service after looks at these captures. */
async function remember(captures: readonly string[], service: ServicePort): Promise<ServiceState> {
  let state = emptyServiceState;
  for (const capture of captures) {
    const observation = await observe(capture, service);
    state = { ...state, ...rememberApiservers({ observation, config: ordinaryConfig, memory: state }) };
  }
  return state;
}

test('what is left of one Service is not mixed with what is left of another on the same host', async () => {
  const captures = ['three-endpoints', 'two-endpoints'];
  const kubernetes = await remember(captures, kubernetesService);
  const web = await remember(captures, webService);
  const list = (endpoints: readonly Endpoint[] | undefined) => endpoints?.map(formatEndpoint);
  expect(list(kubernetes.endpoints.ipv4?.value)).toEqual(['10.77.0.11:6443', '10.77.0.12:6443']);
  expect(list(kubernetes.previousEndpoints.ipv4)).toEqual(['10.77.0.13:6443']);
  expect(list(web.endpoints.ipv4?.value)).toEqual(['10.244.3.7:8080', '10.244.3.8:8080']);
  expect(list(web.previousEndpoints.ipv4)).toEqual([]);
});

test('nothing is left of a family of which nothing was heard', async () => {
  const { endpoints, previousEndpoints, affinity, proxyOnly } = await remember(
    ['three-endpoints'],
    webService,
  );
  expect([endpoints.ipv6, previousEndpoints.ipv6]).toEqual([undefined, []]);
  expect([affinity.ipv6, proxyOnly.ipv6]).toEqual([undefined, undefined]);
});

/** --endpoints names m4, and not m3, whom rules of kube-proxy name. */
const peers = (isAbsent: boolean) => ({
  config: { endpoints: listTexts('m1 m2 m4').map(toEndpoint) },
  world: { ports: { askProxyAbsence: () => Promise.resolve(isAbsent) } },
});

testAgent(
  {
    'rules of kube-proxy that nobody maintains do not outrank --endpoints, and are no fallback':
      'targets m1 m2 m4; m1 m2 m4 refusing; wait 5000; watched m1 m2 m4',
  },
  peers(true),
);

testAgent(
  {
    'rules that kube-proxy maintains do, and that is said once':
      'targets proxy; wait 120000; 1 line of warn .;' +
      '1 line of warn ^--endpoints names 10.77.0.14:6443, and nat KUBE-SVC-NPX46M4PTMTKRN6Y \\(iptables-nft\\) does not. vipnat uses the list of nat KUBE-SVC-NPX46M4PTMTKRN6Y \\(iptables-nft\\)$',
  },
  peers(false),
);

test('kube-proxy is absent at once for a process that never saw it, and else when it was missed for a minute', async () => {
  const clock = new FakeClock();
  let isSeen = false;
  const ask = createProxyAbsence(clock, () => Promise.resolve(isSeen));
  expect([await ask(null), await ask('iptables')]).toEqual([true, false]);
  // From one look to the next on a quiet host.
  await clock.advance(60_000);
  expect(await ask(null)).toBe(false);
  await clock.advance(60_000);
  expect(await ask(null)).toBe(true);
  isSeen = true;
  expect(await ask(null)).toBe(false);
  isSeen = false;
  expect(await ask(null)).toBe(false);
});
