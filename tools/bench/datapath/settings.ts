import type { Lab } from '../../lab/control-plane/lab.ts';
import { listApiservers, apiserverPort, clusterIps } from '../../../test/support/network/layout.ts';
import { haproxyPort } from '../../lab/components/haproxy.ts';

/** The words for ways to an apiserver. */
export const pathNames = ['direct', 'vipnat', 'haproxy', 'kube-proxy'] as const;

/** One of them. */
export type PathName = (typeof pathNames)[number];

/** The words for what a cluster and its agents are set to. */
export const settingNames = ['service-chain', 'direct', 'nftables'] as const;

/** One of them. */
export type SettingName = (typeof settingNames)[number];

/** What a cluster and its agents are set to, and what is measured side by side there. */
export interface Setting {
  /** kube-proxy's mode; settings of the same one share a lab. */
  readonly proxyMode: 'iptables' | 'nftables';
  /** The agents' `--mode`. */
  readonly mode: 'service-chain' | 'direct';
  readonly paths: readonly PathName[];
}

/** By their words. */
export const settings: Readonly<Record<SettingName, Setting>> = {
  'service-chain': { proxyMode: 'iptables', mode: 'service-chain', paths: pathNames },
  direct: { proxyMode: 'iptables', mode: 'direct', paths: ['direct', 'vipnat'] },
  nftables: { proxyMode: 'nftables', mode: 'direct', paths: ['direct', 'vipnat', 'kube-proxy'] },
};

/** A row of the tables: one way in one setting. */
export interface Row {
  readonly setting: SettingName;
  readonly path: PathName;
  readonly title: string;
}

/** In their order; straight access in the setting `direct` is only there to be compared with. */
export const rows: readonly Row[] = [
  { setting: 'service-chain', path: 'direct', title: 'straight' },
  { setting: 'service-chain', path: 'vipnat', title: 'vipnat, service-chain' },
  { setting: 'direct', path: 'vipnat', title: 'vipnat, direct' },
  { setting: 'service-chain', path: 'haproxy', title: 'keepalived + HAProxy' },
  { setting: 'service-chain', path: 'kube-proxy', title: "kube-proxy's ClusterIP" },
  { setting: 'nftables', path: 'direct', title: 'nftables: straight' },
  { setting: 'nftables', path: 'vipnat', title: 'nftables: vipnat, direct' },
  { setting: 'nftables', path: 'kube-proxy', title: "nftables: kube-proxy's ClusterIP" },
];

/** Where a way begins, as addresses with ports. All but `direct` lead through the VIP's holder: `Bed.arrange` sees to it. */
export function listTargets({ vip, options: { family } }: Lab, path: PathName): string[] {
  switch (path) {
    case 'direct':
      return listApiservers(family).map(({ address, port }) => `${address}:${port}`);
    case 'vipnat':
      return [`${vip}:${apiserverPort}`];
    case 'haproxy':
      return [`${vip}:${haproxyPort}`];
    case 'kube-proxy':
      return [`${clusterIps[family]}:443`];
  }
}
