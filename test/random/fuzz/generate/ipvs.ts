import type { Random } from '../../../support/random/random.ts';
import type { VirtualServer, RealServer } from '../../../../lib/kube-proxy/ipvs.ts';
import { makeEndpoint } from './balances.ts';
import type { Endpoint } from '../../../../lib/net.ts';

/** Virtual servers of every protocol and family, also by firewall mark. */
export const makeServers = (random: Random): VirtualServer[] =>
  random.list(4, () => {
    const isMark = random.chance(15);
    return {
      protocol: isMark ? 'FWM' : random.pick(['TCP', 'UDP', 'SCTP']),
      address: isMark ? null : makeEndpoint(random, random.pick(['ipv4', 'ipv6'])),
      scheduler: random.pick(['rr', 'wlc', 'mh', 'sh']),
      persistentSeconds: random.chance(30) ? 1 + random.below(86_400) : null,
      realServers: random.list(3, (): RealServer => ({
        endpoint: makeEndpoint(random, random.pick(['ipv4', 'ipv6'])),
        weight: random.below(65_536),
      })),
    };
  });

/** As ip_vs_info_seq_show prints them. */
export function printServers(servers: readonly VirtualServer[]): string {
  const lines = servers.flatMap(({ protocol, address, scheduler, persistentSeconds, realServers }) => [
    `${protocol}  ${address === null ? '0000ABCD' : printAddress(address)} ${scheduler} ${persistentSeconds === null ? '' : `persistent ${persistentSeconds} FFFFFFFF`}`,
    ...realServers.map(
      ({ endpoint, weight }) =>
        `  -> ${printAddress(endpoint)}      Masq    ${weight}      0          0         `,
    ),
  ]);
  const head = [
    'IP Virtual Server version 1.2.1 (size=4096)',
    'Prot LocalAddress:Port Scheduler Flags',
    '  -> RemoteAddress:Port Forward Weight ActiveConn InActConn',
  ];
  return `${[...head, ...lines].join('\n')}\n`;
}

function printAddress({ family, address, port }: Endpoint): string {
  const hex = (value: number, digits: number) => value.toString(16).padStart(digits, '0').toUpperCase();
  if (family === 'ipv4')
    return `${address
      .split('.')
      .map((part) => hex(Number(part), 2))
      .join('')}:${hex(port, 4)}`;
  const [left = '', right] = address.split('::');
  const split = (part: string) => (part === '' ? [] : part.split(':'));
  const missing = 8 - split(left).length - split(right ?? '').length;
  const groups = [
    ...split(left),
    ...Array<string>(right === undefined ? 0 : missing).fill('0'),
    ...split(right ?? ''),
  ];
  return `[${groups.map((group) => group.padStart(4, '0')).join(':')}]:${hex(port, 4)}`;
}
