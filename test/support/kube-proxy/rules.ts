import {
  type ServicePort,
  formatServicePort,
  serviceChainName,
  hashToBase32,
  type ServicePortName,
} from '../../../lib/kube-proxy/read.ts';
import { type Endpoint, type Family, formatEndpoint } from '../../../lib/net.ts';

/** A Service other than the control plane's, as every cluster has them; the captures hold it, too. */
export const webService: ServicePort = {
  namespace: 'default',
  name: 'web',
  portName: 'http',
  protocol: 'tcp',
  port: 80,
};

/** A Service as kube-proxy is told of it; endpoints of one family. */
export interface ProxiedService {
  readonly service: ServicePort;
  readonly clusterIp: string;
  readonly endpoints: readonly Endpoint[];
}

/** The chains that kube-proxy flushes with every update, and the hooks that lead to them, as of 1.36.3. */
const filterChains = [
  'KUBE-EXTERNAL-SERVICES',
  'KUBE-FIREWALL',
  'KUBE-FORWARD',
  'KUBE-NODEPORTS',
  'KUBE-PROXY-FIREWALL',
  'KUBE-SERVICES',
];
const natChains = ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ'];

/** What kube-proxy calls its own and deletes when nothing needs it: isServiceChainName. */
const servicePrefixes = /^KUBE-(?:SVC|SVL|SEP|FW|EXT)-/;

/** The jumps that kube-proxy prepends when they are missing: table, chain, rule. */
export const jumps: readonly (readonly [table: string, chain: string, rule: string])[] = [
  [
    'filter',
    'FORWARD',
    '-m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  ],
  ['filter', 'FORWARD', '-m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD'],
  [
    'filter',
    'OUTPUT',
    '-m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  ],
  ['nat', 'PREROUTING', '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'],
  ['nat', 'OUTPUT', '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'],
  ['nat', 'POSTROUTING', '-m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING'],
];

/**
 * The one script that kube-proxy 1.36 gives to `iptables-restore --noflush --counters` in a full update: the filter
 * table, then the nat table, in which every service chain of its own that nothing needs any more is deleted.
 */
export function renderUpdate(
  services: readonly ProxiedService[],
  existingNatChains: readonly string[],
  podNetwork: string,
): string {
  const active = services.filter(({ endpoints }) => endpoints.length > 0);
  const wanted = new Set(active.flatMap(listChains));
  const stale = existingNatChains.filter((name) => servicePrefixes.test(name) && !wanted.has(name));
  return [
    '*filter',
    ...filterChains.map(declare),
    ...services.filter(({ endpoints }) => endpoints.length === 0).map(reject),
    '-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP',
    '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT',
    '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    'COMMIT',
    '*nat',
    ...[...natChains, ...wanted, ...stale].map(declare),
    '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
    '-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000',
    '-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully',
    '-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000',
    ...active.flatMap((service) => renderService(service, podNetwork)),
    `-A KUBE-SERVICES ${podNetwork.includes(':') ? '! -d ::1/128 ' : ''}-m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS`,
    ...stale.map((name) => `-X ${name}`),
    'COMMIT',
    '',
  ].join('\n');
}

/** The script by which `kube-proxy --cleanup` flushes and deletes a table's chains of its own; canaries stay. */
export function renderCleanup(table: 'nat' | 'filter', existingChains: readonly string[]): string {
  const fixed = table === 'nat' ? natChains : filterChains;
  const own = existingChains.filter((name) => fixed.includes(name) || servicePrefixes.test(name));
  return [`*${table}`, ...own.map(declare), ...own.map((name) => `-X ${name}`), 'COMMIT', ''].join('\n');
}

/** kube-proxy's chain for one endpoint of a service port (pkg/proxy/iptables/proxier.go, servicePortEndpointChainName). */
export function endpointChainName(service: ServicePortName, endpoint: Endpoint): string {
  const text = `${formatServicePort(service)}${service.protocol}${formatEndpoint(endpoint)}`;
  return `KUBE-SEP-${hashToBase32(text, 16)}`;
}

function renderService({ service, clusterIp, endpoints }: ProxiedService, podNetwork: string): string[] {
  const name = formatServicePort(service);
  const chain = serviceChainName(service);
  const family: Family = clusterIp.includes(':') ? 'ipv6' : 'ipv4';
  const match = `-m comment --comment "${name} cluster IP" -m tcp -p tcp -d ${clusterIp} --dport ${service.port}`;
  return [
    `-A KUBE-SERVICES ${match} -j ${chain}`,
    `-A ${chain} ${match} ! -s ${podNetwork} -j KUBE-MARK-MASQ`,
    ...endpoints.flatMap((endpoint, index) => {
      const separate = endpointChainName(service, endpoint);
      const remaining = endpoints.length - index;
      const chance =
        remaining === 1 ? '' : `-m statistic --mode random --probability ${(1 / remaining).toFixed(10)} `;
      const prefix = family === 'ipv6' ? 128 : 32;
      return [
        `-A ${chain} -m comment --comment "${name} -> ${formatEndpoint(endpoint)}" ${chance}-j ${separate}`,
        `-A ${separate} -m comment --comment ${name} -s ${endpoint.address}/${prefix} -j KUBE-MARK-MASQ`,
        `-A ${separate} -m comment --comment ${name} -m tcp -p tcp -j DNAT --to-destination ${formatEndpoint(endpoint)}`,
      ];
    }),
  ];
}

function reject({ service, clusterIp }: ProxiedService): string {
  return `-A KUBE-SERVICES -m comment --comment "${formatServicePort(service)} has no endpoints" -m tcp -p tcp -d ${clusterIp} --dport ${service.port} -j REJECT`;
}

function listChains({ service, endpoints }: ProxiedService): string[] {
  return [serviceChainName(service), ...endpoints.map((endpoint) => endpointChainName(service, endpoint))];
}

function declare(chain: string): string {
  return `:${chain} - [0:0]`;
}
