import type { Family, Endpoint } from '../../../lib/net.ts';
import { type ProxiedService, webService, renderUpdate, jumps, renderCleanup } from './rules.ts';
import type { Namespaces } from '../network/namespaces.ts';
import { type IptablesDialect, toolName } from '../../../lib/kernel/port.ts';
import { listApiservers, clusterIps, podNetworks } from '../network/layout.ts';
import { kubernetesService, nftServiceChain } from '../../../lib/kube-proxy/read.ts';

const proxiedWeb: Readonly<Record<Family, ProxiedService>> = {
  ipv4: {
    service: webService,
    clusterIp: '10.96.7.7',
    endpoints: [{ family: 'ipv4', address: '10.244.3.2', port: 8080 }],
  },
  ipv6: {
    service: webService,
    clusterIp: 'fd00:96::77',
    endpoints: [{ family: 'ipv6', address: 'fd00:244:3::2', port: 8080 }],
  },
};

/**
 * Stands in for kube-proxy in one namespace and family: writes what kube-proxy 1.36.3 writes, with the same tools
 * in the same order, and fails as it does. It watches nothing: a test tells it when to update.
 */
export class KubeProxyStandIn {
  readonly #namespaces: Pick<Namespaces, 'run'>;
  readonly #namespace: string;
  readonly #backend: IptablesDialect;
  readonly #family: Family;
  /** How long it waits for the xtables lock; as kube-proxy does, unless told otherwise. */
  waitSeconds = 5;

  constructor(
    namespaces: Pick<Namespaces, 'run'>,
    namespace: string,
    dialect: IptablesDialect,
    family: Family = 'ipv4',
  ) {
    this.#namespaces = namespaces;
    this.#namespace = namespace;
    this.#backend = dialect;
    this.#family = family;
  }

  /**
   * A full update in iptables mode: missing jumps are prepended, then one restore. Rejects with the tool's words when
   * the restore fails; its filter half may be in effect then, its nat half is not.
   */
  async sync(endpoints: readonly Endpoint[] = listApiservers(this.#family)): Promise<void> {
    await this.#ensureJumps();
    const own = { service: kubernetesService, clusterIp: clusterIps[this.#family], endpoints };
    const services = [proxiedWeb[this.#family], own];
    const script = renderUpdate(services, await this.#listChains('nat'), podNetworks[this.#family]);
    await this.#restore(script, '--counters');
  }

  /**
   * `kube-proxy --cleanup`, and the start in another mode: jumps first, then one restore per table that deletes all
   * chains, then those also known to ipvs mode one by one. Errors are passed over, as there: a foreign jump into a
   * service's chain leaves all of these in place, but KUBE-MARK-MASQ empty.
   */
  async cleanUp(): Promise<void> {
    await this.#runTools(jumps.map(([table, chain, rule]) => `-t ${table} -D ${chain} ${rule}`));
    for (const table of ['nat', 'filter'] as const)
      await this.#restore(renderCleanup(table, await this.#listChains(table))).catch(() => undefined);
    await this.#runTools(
      ['KUBE-SERVICES', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ'].flatMap((chain) => [
        `-t nat -F ${chain}`,
        `-t nat -X ${chain}`,
      ]),
    );
  }

  /** A full update in nftables mode: the part of table `kube-proxy` that is about default/kubernetes. */
  async syncNftables(endpoints: readonly Endpoint[] = listApiservers(this.#family)): Promise<void> {
    const ip = this.#family === 'ipv6' ? 'ip6' : 'ip';
    const clusterIp = clusterIps[this.#family];
    const elements = endpoints
      .map(({ address, port }, index) => `${index} : ${address} . ${port}`)
      .join(', ');
    const type = `${this.#family}_addr . inet_proto . inet_service : verdict`;
    const key = `${clusterIp} . tcp . ${kubernetesService.port}`;
    const dnat = `meta l4proto tcp dnat ${ip} to numgen random mod ${endpoints.length} map { ${elements} }`;
    const hasEndpoints = endpoints.length > 0;
    const script = `table ${ip} kube-proxy
delete table ${ip} kube-proxy
table ${ip} kube-proxy {
  chain reject-chain { reject; }
  chain ${nftServiceChain} {
    ${hasEndpoints ? dnat : ''}
  }
  map service-ips {
    type ${type};
    ${hasEndpoints ? `elements = { ${key} : goto ${nftServiceChain} }` : ''}
  }
  map no-endpoint-services {
    type ${type};
    ${hasEndpoints ? '' : `elements = { ${key} comment "default/kubernetes:https" : goto reject-chain }`}
  }
  chain services { ${ip} daddr . meta l4proto . th dport vmap @service-ips; }
  chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
  chain nat-output { type nat hook output priority -100; jump services; }
}
`;
    const { exitCode, stderr } = await this.#namespaces.run(this.#namespace, ['nft', '-f', '-'], {
      input: script,
    });
    if (exitCode !== 0) throw new Error(`nft: ${stderr}`);
  }

  async #ensureJumps(): Promise<void> {
    await this.#runTools([
      ...['mangle', 'nat', 'filter'].map((table) => `-t ${table} -N KUBE-PROXY-CANARY`),
      ...jumps.flatMap(([table, chain, rule]) => [
        `-t ${table} -N ${rule.slice(rule.lastIndexOf(' ') + 1)}`,
        `-t ${table} -C ${chain} ${rule} || TOOL -t ${table} -I ${chain} ${rule}`,
      ]),
    ]);
  }

  async #listChains(table: string): Promise<string[]> {
    const words = [toolName(this.#family, this.#backend), '-w', String(this.waitSeconds), '-t', table, '-S'];
    const { stdout } = await this.#namespaces.run(this.#namespace, words);
    return [...stdout.matchAll(/^-N (\S+)$/gm)].map(([, name]) => name ?? '');
  }

  async #restore(script: string, ...flags: readonly string[]): Promise<void> {
    const tool = toolName(this.#family, this.#backend, 'restore');
    const { exitCode, stderr } = await this.#namespaces.run(
      this.#namespace,
      [tool, '--noflush', ...flags, '-w', String(this.waitSeconds)],
      { input: script },
    );
    if (exitCode !== 0) throw new Error(`${tool}: exit status ${exitCode}: ${stderr}`);
  }

  /** One after the other, from one shell: each is a process in the namespace already. What fails is passed over. */
  async #runTools(commands: readonly string[]): Promise<void> {
    const tool = `${toolName(this.#family, this.#backend)} -w ${this.waitSeconds}`;
    const script = commands.map((command) => `{ TOOL ${command}; } 2>/dev/null`).join('\n');
    await this.#namespaces.run(this.#namespace, ['sh', '-s'], { input: script.replaceAll('TOOL', tool) });
  }
}
