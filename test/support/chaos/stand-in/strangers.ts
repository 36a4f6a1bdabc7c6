import { type Family, families } from '../../../../lib/net.ts';
import { vips, clusterIps, masters } from '../../network/layout.ts';
import { iptablesDialects, toolName, type IptablesDialect } from '../../../../lib/kernel/port.ts';
import type { Host } from './host.ts';
import type { Proxy, Apiserver } from './truth.ts';
import { strangersScript } from '../../host/foreign-rules.ts';
import { dumpScript, compareForeign, listForeign } from '../../foreign/dump.ts';
import { KubeProxyStandIn } from '../../kube-proxy/on-host.ts';
import type { RunOptions } from '../../network/namespaces.ts';
import { blackholeTable } from '../world/blackhole.ts';

/** A lock is held for at most 30 s. */
const waitSeconds = 45;

/** Rules that programs put before all others: what they do, and whether the VIP's packets would be taken by them. */
const hooks: readonly ((family: Family) => string)[] = [
  // As Docker publishes a container's port 6443: it takes what is for any of the host's addresses, the VIP's too.
  () => '-m addrtype --dst-type LOCAL -j DOCKER',
  (family) => `-d ${vips[family]} -p tcp -m tcp --dport 6443 -j RETURN`,
  () => '-m comment --comment "just counts"',
  (family) => `-d ${clusterIps[family]} -p udp -m udp --dport 53 -j ACCEPT`,
];

export const hookCount = hooks.length;

/** So many of them take the VIP's packets. */
const takerCount = 2;

/** Where Docker's hooks lead. */
const dockerChains = families
  .flatMap((family) =>
    iptablesDialects.map((dialect) => `${toolName(family, dialect)} -t nat -N DOCKER 2>/dev/null || true`),
  )
  .join('\n');

/** A container that is published on the VIP's port 6443, as far as Docker is asked: it is not there. */
const containers = {
  ipv4: '172.17.0.9:6443',
  ipv6: '[fd00:17::9]:6443',
} as const satisfies Record<Family, string>;

/**
 * The other programs on a host: kube-proxy, Docker, firewalls. Whatever they do there, they do on a twin that has no vipnat, too;
 * so their rules on the host have to be those on the twin.
 */
export class Strangers {
  readonly #host: Host;
  readonly #twin: Host;
  /** The commands that take away what takes the VIP's packets. */
  readonly #takers = new Set<string>();

  constructor(host: Host, twin: Host) {
    this.#host = host;
    this.#twin = twin;
  }

  async settleIn(proxy: Proxy): Promise<void> {
    await this.#do(`${strangersScript}\n${dockerChains}`);
    await this.publishContainer(proxy);
    await this.sync(proxy);
  }

  /** Empties one table of iptables in both families, as people do. */
  async flush(table: string, { dialect }: Proxy): Promise<void> {
    const tools = families.map((family) => toolName(family, dialect));
    await this.#do(tools.map((tool) => `${tool} -w ${waitSeconds} -t ${table} -F`).join('\n'));
  }

  /** Puts one of the strange hooks before everything, or takes it away; see publishContainer for those that take packets. */
  async toggleHook(index: number, chain: string, family: Family, { dialect, mode }: Proxy): Promise<void> {
    const tool = natTool(family, dialect);
    const rule = `${chain} ${hooks[index % hooks.length]?.(family) ?? ''}`;
    if (index % hooks.length < takerCount) {
      if (mode === 'none') return;
      this.#takers.add(`${tool} -D ${rule}`);
    }
    await this.#do(`${tool} -D ${rule} 2>/dev/null || ${tool} -I ${rule}`);
  }

  /**
   * Publishes the container. What takes the VIP's packets is in kube-proxy's backend, where vipnat is, or behind vipnat's own table:
   * what stands in the other backend may come first, and then nobody can help (doctor's `foreign-dnat`).
   */
  async publishContainer({ dialect, mode }: Proxy): Promise<void> {
    if (mode === 'none') return;
    const commands = families.map((family) => {
      const rule = `DOCKER -d ${vips[family]} -p tcp -m tcp --dport 6443 -j DNAT --to-destination ${containers[family]}`;
      const tool = natTool(family, dialect);
      this.#takers.add(`${tool} -D ${rule}`);
      return `${tool} -A ${rule}`;
    });
    await this.#do(commands.join('\n'));
  }

  /** Whoever changes modes or backends first removes what takes the VIP's packets where it was. */
  async removeTakers(): Promise<void> {
    const commands = [...this.#takers].map((command) => `while ${command} 2>/dev/null; do :; done`);
    this.#takers.clear();
    if (commands.length > 0) await this.#do(commands.join('\n'));
  }

  /** Restores a firewall from a file that knows nothing of vipnat: what is there but for us, whole. */
  async restoreFirewall(table: string, family: Family, { dialect }: Proxy): Promise<void> {
    const save = await this.#twin.shell(`${toolName(family, dialect, 'save')} -t ${table}`);
    const restore = `${toolName(family, dialect, 'restore')} -w ${waitSeconds}`;
    await this.#do(`${restore} <<'END'\n${save}\nEND`);
  }

  /** A whole update of kube-proxy; it is behind when that fails. */
  async sync(proxy: Proxy): Promise<void> {
    proxy.isBehind = false;
    if (proxy.mode === 'none') return;
    const tasks = families.flatMap((family) =>
      this.#proxies(family, proxy).map((standIn) => {
        const endpoints = listEndpoints(proxy.list, family);
        return proxy.mode === 'nftables' ? standIn.syncNftables(endpoints) : standIn.sync(endpoints);
      }),
    );
    for (const { status } of await Promise.allSettled(tasks))
      if (status === 'rejected') proxy.isBehind = true;
  }

  /** `kube-proxy --cleanup`, of all modes. */
  async cleanUp(dialect: IptablesDialect): Promise<void> {
    await this.#cleanUpIptables(dialect);
    await this.#do('for family in ip ip6; do nft delete table $family kube-proxy 2>/dev/null || true; done');
  }

  async #cleanUpIptables(dialect: IptablesDialect): Promise<void> {
    const proxies = families.flatMap((family) => this.#proxies(family, { dialect }));
    await Promise.all(proxies.map((standIn) => standIn.cleanUp()));
  }

  /** Once more what it may have left behind; answers the backends where its chains are there all the same. */
  async removeLeft({ mode, dialect: current, left }: Proxy): Promise<IptablesDialect[]> {
    for (const dialect of left) {
      const isInUse = mode === 'iptables' && dialect === current;
      // Its next update removes what it does not need.
      if (!isInUse) await this.#cleanUpIptables(dialect);
      if (isInUse || !(await this.#hasServiceChains(dialect))) left.delete(dialect);
    }
    return [...left];
  }

  async #hasServiceChains(dialect: IptablesDialect): Promise<boolean> {
    const tools = families.map((family) => toolName(family, dialect, 'save'));
    const saved = await this.#host.shell(tools.map((tool) => `${tool} -t nat`).join('\n'));
    return /^:KUBE-S(?:VC|EP)-/m.test(saved);
  }

  /** How the strangers' rules differ from what they themselves made: a sentence for each chain. */
  async compare(): Promise<{ complaints: string[]; dump: string }> {
    const [dump, wanted] = await Promise.all([this.#host.shell(dumpScript), this.#twin.shell(dumpScript)]);
    const complaints = compareForeign(listOthers(dump), listOthers(wanted));
    return { complaints: complaints.map((complaint) => `${this.#host.name}: ${complaint}`), dump };
  }

  #proxies(family: Family, { dialect }: Pick<Proxy, 'dialect'>): KubeProxyStandIn[] {
    return [this.#host, this.#twin].map((host) => {
      const runner = {
        run: (_: string, command: readonly string[], options?: RunOptions) => host.run(command, options),
      };
      const standIn = new KubeProxyStandIn(runner, host.namespace, dialect, family);
      // What it gives up on the host it would have done on the twin, which nobody locks.
      standIn.waitSeconds = waitSeconds;
      return standIn;
    });
  }

  async #do(script: string): Promise<void> {
    await Promise.all([this.#host.shell(script), this.#twin.shell(script)]);
  }
}

function listOthers(dump: string): string[] {
  return listForeign(dump, (table) => table === `table ${blackholeTable}`);
}

function natTool(family: Family, dialect: IptablesDialect): string {
  return `${toolName(family, dialect)} -w ${waitSeconds} -t nat`;
}

function listEndpoints(names: readonly Apiserver[], family: Family) {
  return masters
    .filter(({ name }) => names.some((listed) => listed === name))
    .map(({ addresses }) => ({ family, address: addresses[family], port: 6443 }));
}
