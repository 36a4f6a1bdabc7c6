import type { Family, Endpoint } from '../../../lib/net.ts';

/** A host or pod of the miniature cluster. */
export interface Host {
  readonly name: string;
  readonly addresses: Readonly<Record<Family, string>>;
  /** The pod network of a host with pods. */
  readonly pods?: Readonly<Record<Family, string>>;
}

/** Three masters, the first of which holds the VIPs at the start. */
export const masters: readonly Host[] = [
  {
    name: 'm1',
    addresses: { ipv4: '10.77.0.11', ipv6: 'fd77::11' },
    pods: { ipv4: '10.244.1', ipv6: 'fd00:244:1:' },
  },
  {
    name: 'm2',
    addresses: { ipv4: '10.77.0.12', ipv6: 'fd77::12' },
    pods: { ipv4: '10.244.2', ipv6: 'fd00:244:2:' },
  },
  { name: 'm3', addresses: { ipv4: '10.77.0.13', ipv6: 'fd77::13' } },
];

export const worker: Host = {
  name: 'worker',
  addresses: { ipv4: '10.77.0.21', ipv6: 'fd77::21' },
  pods: { ipv4: '10.244.3', ipv6: 'fd00:244:3:' },
};

/** A host that is no part of the cluster. */
export const outsider: Host = { name: 'client', addresses: { ipv4: '10.77.0.100', ipv6: 'fd77::100' } };

export const hosts: readonly Host[] = [...masters, worker, outsider];

export const podHosts: readonly Host[] = hosts.filter(({ pods }) => pods !== undefined);

export const vips: Readonly<Record<Family, string>> = { ipv4: '10.77.0.50', ipv6: 'fd77::50' };

/** The ClusterIPs of default/kubernetes. */
export const clusterIps: Readonly<Record<Family, string>> = { ipv4: '10.96.0.1', ipv6: 'fd00:96::1' };

/** The network that all ClusterIPs are from. */
export const serviceNetworks: Readonly<Record<Family, string>> = {
  ipv4: '10.96.0.0/16',
  ipv6: 'fd00:96::/112',
};

export const podNetworks: Readonly<Record<Family, string>> = { ipv4: '10.244.0.0/16', ipv6: 'fd00:244::/32' };

export const apiserverPort = 6443;

/** A master's IPv4 address; empty for anybody else. */
export function addressOf(name: string): string {
  return masters.find((master) => master.name === name)?.addresses.ipv4 ?? '';
}

export function listApiservers(family: Family): Endpoint[] {
  return masters.map(({ addresses }) => ({ family, address: addresses[family], port: apiserverPort }));
}

/** The address of a host on its pod network, and that of its one pod. */
export function podAddresses({ pods }: Host, family: Family): { host: string; pod: string } {
  const network = pods?.[family] ?? '';
  const separator = family === 'ipv4' ? '.' : ':';
  return { host: `${network}${separator}1`, pod: `${network}${separator}2` };
}
