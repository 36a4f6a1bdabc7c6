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

/** Text of /proc/net/ip_vs for IPv4: servers as `10.96.0.1:443 10.0.0.1:6443 10.0.0.2:6443*0`, with weight 0 for the last, and `|` between them. */
function sketch(servers: string): string {
  const toHex = (endpoint = '') => {
    const [address = '', port = ''] = endpoint.split(':');
    const octets = address.split('.').map((octet) => Number(octet).toString(16).padStart(2, '0'));
    return `${octets.join('')}:${Number(port).toString(16).padStart(4, '0')}`.toUpperCase();
  };
  const lines = servers.split(' | ').flatMap((server) => {
    const [, protocol = 'TCP', address, realServers = ''] = /^(UDP)? ?(\S+)(.*)$/.exec(server) ?? [];
    const rows = (realServers.match(/\S+/g) ?? []).map((realServer) => {
      const [endpoint, weight = '1'] = realServer.split('*');
      return `  -> ${toHex(endpoint)}      Masq    ${weight}      0          0         `;
    });
    return [`${protocol}  ${toHex(address)} rr  `, ...rows];
  });
  return `${lines.join('\n')}\n`;
}

describe('the virtual server of default/kubernetes', () => {
  const find = (text: string, question: Partial<ServiceQuestion> = {}) => {
    const localAddresses = ['127.0.0.1', '10.0.0.1'];
    const { server, reason } = findKubernetesServer(parseIpvs(text), {
      ...{ family: 'ipv4', localAddresses },
      ...question,
    });
    const backends = server?.value.backends.map(formatEndpoint).join(' ');
    return { clusterIp: server?.value.clusterIp, backends, reason };
  };
  const apiservers = '10.96.0.1:443 10.0.0.1:6443 10.0.0.2:6443';
  const [web, nested] = ['10.96.7.7:443 10.244.3.8:8443', '10.96.7.1:443 10.0.0.1:6443'];
  const [alone, higher] = ['10.96.0.1:443 10.0.0.1:6443', '100.96.0.1:443 10.244.3.8:8443'];
  const [given, elsewhere] = [{ clusterIp: '10.96.0.1' }, { localAddresses: ['10.0.0.9'] }];

  test('is found where a real kube-proxy made it, and it is said where', () => {
    const question = { family: 'ipv4', localAddresses: ['10.77.0.12'] } as const;
    const { server, reason } = findKubernetesServer(parseIpvs(three), question);
    expect(server).toMatchObject({ value: { clusterIp: '10.96.0.1', port: 443 }, seenIn: '/proc/net/ip_vs' });
    expect(server?.value.backends.map(formatEndpoint)).toEqual(listTexts('m1 m2 m3'));
    expect(reason).toBeNull();
  });

  const found = '10.96.0.1 to 10.0.0.1:6443';
  const sixth = { family: 'ipv6', clusterIp: 'FD00:96:0::1' } as const;

  test.each<[string, string, string, Partial<ServiceQuestion>?]>([
    ['leads to this host, at any port', `${web} | 10.96.0.1:443 10.0.0.1:84`, '10.96.0.1 to 10.0.0.1:84'],
    ['leads to 6443 only, if none leads here', `${web} | ${alone}`, found, elsewhere],
    ['is of that family', both, 'fd00:96::1 to [fd00::1]:6443', { family: 'ipv6' }],
    ['has a real server of weight 0, which is no backend', `${alone} 10.0.0.2:6443*0`, found],
    ['has the lowest address as a number', `${alone} | ${higher}`, found],
    ['has the ClusterIP given', `${nested} | ${alone}`, found, given],
    ['has the ClusterIP given, and leads nowhere', '10.96.0.1:443 10.0.0.1:6443*0', '10.96.0.1 to ', given],
    ['has it as an address, not as text', both, 'fd00:96::1 to [fd00::1]:6443', sixth],
  ])('is the one that %s', (_, servers, expected, question = {}) => {
    const { clusterIp, backends, reason } = find(servers === both ? both : sketch(servers), question);
    expect([`${clusterIp} to ${backends}`, reason]).toEqual([expected, null]);
  });

  test.each<[string, string, Partial<ServiceQuestion>?]>([
    ['it is UDP', `UDP ${apiservers}`],
    ['it is on another port', '10.96.0.1:6443 10.0.0.1:6443'],
    ['it leads elsewhere', '10.96.0.1:443 10.0.0.2:8443'],
    ['it leads to 6443 and elsewhere', '10.96.0.1:443 10.0.0.2:6443 10.0.0.3:8443'],
    ['no real server gets connections', '10.96.0.1:443 10.0.0.1:6443*0'],
    ['it has no real server', '10.96.0.1:443'],
    ['its address is not the first of any range', '10.96.37.200:443 10.0.0.1:6443'],
    ['two lead to this host', `${apiservers} | 10.96.7.1:443 10.0.0.1:443`],
    ['two lead to 6443', `10.96.7.1:443 10.244.3.8:6443 | ${apiservers}`, { localAddresses: [] }],
    ['one below it leads to other apiservers', '10.96.7.1:443 10.0.0.1:443 | 10.96.0.1:443 10.0.0.2:8443'],
    ['one below it leads nowhere', '10.96.7.1:443 10.0.0.1:443 | 10.96.0.1:443'],
    ['one has a lower address as a number', `${apiservers} | 9.96.0.1:443 10.244.3.8:8443`],
  ])('is never guessed: not where %s', (_, servers, question = {}) => {
    const { clusterIp, reason } = find(sketch(servers), question);
    expect(clusterIp).toBeUndefined();
    expect(reason).toContain('--cluster-ip');
  });

  test('is told with all that lead to this host, or with the one that was given', () => {
    expect(find(sketch(`${apiservers} | 10.96.7.1:443 10.0.0.1:443`)).reason).toMatch(
      /10\.96\.0\.1.*10\.96\.7\.1.*--cluster-ip/,
    );
    expect(find(sketch(nested), given)).toMatchObject({
      clusterIp: undefined,
      reason: expect.stringContaining('10.96.0.1:443') as unknown,
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
    ...{ asked: null, configured: 'auto', iptables: [], hasIpvsServer: false, hasNftEntryRule: false },
    ...result,
  });

const everything = { iptables: [ipvs, live], hasIpvsServer: true, hasNftEntryRule: true };

describe('decideProxyMode', () => {
  const edge = 'nat KUBE-SERVICES (iptables-nft)';
  const table = 'nft table ip kube-proxy';
  const hook = 'nat PREROUTING jumps to KUBE-SERVICES';
  const flushed = { ...withoutEndpoints, isHooked: false };
  const forEach = (values: readonly string[], toRow: (value: string) => [string, Evidence, string]) =>
    Object.fromEntries(values.map(toRow).map(([name, evidence, mode]) => [name, [evidence, mode] as const]));

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
      'an idle edge loses to nft': [{ iptables: [unhooked], hasNftEntryRule: true }, `nftables: ${table}`],
      'an edge that no packet reaches loses to a live virtual server': [
        { iptables: [unhooked, ipvs], hasIpvsServer: true },
        'ipvs: /proc/net/ip_vs',
      ],
      'nftables beats ipvs: packets meet its DNAT first': [
        { iptables: [ipvs], hasIpvsServer: true, hasNftEntryRule: true },
        `nftables: ${table}`,
      ],
      'an edge that no packet reaches is better than none': [{ iptables: [unhooked] }, `iptables: ${edge}`],
      "a virtual server without kube-proxy's rules is somebody else's": [
        { hasIpvsServer: true },
        'none: no trace of kube-proxy',
      ],
      'without rules hooked chains tell iptables': [{ iptables: [withoutEndpoints] }, `iptables: ${hook}`],
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
  return { ...observation, views: { ...observation.views, ipv4: { ...observation.views.ipv4, iptables } } };
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
  // Nothing is left of a family of which nothing was heard.
  expect([web.endpoints.ipv6, web.previousEndpoints.ipv6]).toEqual([undefined, []]);
  expect([web.affinity.ipv6, web.proxyOnly.ipv6]).toEqual([undefined, undefined]);
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
