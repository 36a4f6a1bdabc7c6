import type { ProxySetting } from '../../../tools/lab/components/kube-proxy.ts';
import { type Family, families } from '../../../lib/net.ts';
import type { Suite } from '../../support/suites/suites.ts';
import { type Host, podAddresses } from '../../support/network/layout.ts';

/** kube-proxy's mode on a node, and the backend of its tools. */
export interface ProxySetUp extends Pick<ProxySetting, 'mode' | 'iptables' | 'isStrictArp'> {
  /** Whose tools the two programs have; this machine's when left out. */
  readonly suites?: Readonly<Record<'kubeProxy' | 'balancer', Suite>>;
}

/** A node, its pod, and the addresses of all Services that it holds. */
export interface ProxiedNode {
  readonly name: string;
  readonly addresses: Readonly<Record<Family, string>>;
  readonly pod: string;
  readonly podAddresses: Readonly<Record<Family, string>>;
  readonly vips: Readonly<Record<Family, string>>;
}

/** Nodes whose kube-proxies are set up differently: one for each set-up, which are called by the words for it. */
export class ProxiedPlan {
  readonly names: readonly string[];
  readonly hosts: readonly Host[];
  readonly nodes: readonly ProxiedNode[];
  readonly #setUps: Readonly<Record<string, ProxySetUp>>;

  constructor(setUps: Readonly<Record<string, ProxySetUp>>) {
    this.#setUps = setUps;
    this.names = Object.keys(setUps);
    this.hosts = this.names.map((_, at) => ({
      name: `n${at + 1}`,
      addresses: { ipv4: `10.77.0.${31 + at}`, ipv6: `fd77::${31 + at}` },
      pods: { ipv4: `10.244.${11 + at}`, ipv6: `fd00:244:${11 + at}:` },
    }));
    this.nodes = this.hosts.map((host, at) => ({
      ...{ name: host.name, addresses: host.addresses, pod: `pod-${host.name}` },
      podAddresses: { ipv4: podAddresses(host, 'ipv4').pod, ipv6: podAddresses(host, 'ipv6').pod },
      vips: { ipv4: `10.77.0.${61 + at}`, ipv6: `fd77::${61 + at}` },
    }));
  }

  get proxiedNames(): readonly string[] {
    return this.names.filter((name) => this.setUpOf(name).mode !== 'none');
  }

  /** Each with each family. */
  get cases(): readonly (readonly [string, Family])[] {
    return this.names.flatMap((name) => families.map((family) => [name, family] as const));
  }

  /** The pods of all Services, by the names that they say. */
  get podNames(): readonly string[] {
    return this.nodes.map(({ pod }) => pod);
  }

  setUpOf(name: string): ProxySetUp {
    const setUp = this.#setUps[name];
    if (setUp === undefined) throw new Error(`no set-up is called ${name}`);
    return setUp;
  }

  nodeOf(name: string): ProxiedNode {
    const node = this.nodes[this.names.indexOf(name)];
    if (node === undefined) throw new Error(`no node has the set-up ${name}`);
    return node;
  }
}
