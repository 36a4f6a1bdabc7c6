import { familyToNft } from '../../lib/kernel/netlink/nft-chains.ts';
import { type Address, families, type Family, parseAddress } from '../../lib/address/address.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { type BalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { type ForwardChain, type IptablesDialect, iptablesDialects } from '../../lib/kernel/port.ts';
import { toolName } from '../../lib/kernel/tools/tool-name.ts';
import { parseSave } from '../../lib/netfilter/iptables/parse.ts';
import { findErrorCode } from '../../lib/text/errors.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { acceptChain, acceptChains, planAccept } from '../decide/accept-forwarded.ts';

/**
 * How often it looks.
 *
 * Goal: a chain FORWARD that begins to drop is noticed in seconds.
 * Tension: others write to nftables all the time, and tools that list rules begin again at each of their commits: such a tool never ends, and
 * takes a processor.
 * Compromise: a look starts no tool while these chains of iptables-nft and nftables stay as they are, and asks the kernel for a list of chains. It comes when
 * addresses change, once in five seconds at most while only tables change, and each minute. iptables-legacy has no such list: its tool
 * runs when addresses change, and each minute.
 */
const paceMs = 5000;

/** Changes of iptables-legacy move no generation of nftables. */
const tickMs = 60_000;

/** What it needs of the world. */
export interface ForwardPorts {
  readonly kernel: Pick<BalancerKernel, 'readFilter' | 'restore' | 'listForwardChains'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Lets connections to Services pass where this host drops what is forwarded, and names what it cannot overrule. Beside everything
 * else, one look at a time; a failure is reported once, and tried again.
 */
export class ForwardKeeper {
  readonly #ports: ForwardPorts;
  readonly #told = new Set<string>();
  #work: Promise<void> | null = null;
  #addresses: ReadonlySet<string> = new Set();
  #lookedAt = -Infinity;
  #legacyLookedAt = -Infinity;
  #chainsLookedAt = -Infinity;
  #isStopped = false;

  constructor(ports: ForwardPorts) {
    this.#ports = ports;
  }

  /** Takes the addresses of all Services, and whether somebody has changed tables. Returns at once. */
  keep(addresses: ReadonlySet<string>, haveTablesChanged: boolean): void {
    const now = this.#ports.clock.now();
    const isSame =
      addresses.size === this.#addresses.size &&
      [...addresses].every((address) => this.#addresses.has(address));
    const restMs = haveTablesChanged ? paceMs : tickMs;
    if (this.#work !== null || this.#isStopped || (isSame && now - this.#lookedAt < restMs)) return;
    this.#addresses = new Set(addresses);
    this.#lookedAt = now;
    const isLegacyDue = !isSame || now - this.#legacyLookedAt >= tickMs;
    if (isLegacyDue) this.#legacyLookedAt = now;
    const dialects = iptablesDialects.filter((dialect) => dialect === 'nft' || isLegacyDue);
    this.#work = this.#look(dialects).finally(() => (this.#work = null));
  }

  /** Waits for the look under way. The chain stays. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#work;
  }

  async #look(dialects: readonly IptablesDialect[]): Promise<void> {
    const written: string[] = [];
    for (const family of families) {
      for (const dialect of dialects) {
        const place = `chain FORWARD of ${toolName(family, dialect)}`;
        const isRead = await this.#attempt(place, () => this.#accept(family, dialect, place));
        if (isRead && dialect === 'nft') written.push(`${familyToNft[family]} filter FORWARD`);
      }
    }
    const now = this.#ports.clock.now();
    if (now - this.#chainsLookedAt < tickMs) return;
    this.#chainsLookedAt = now;
    await this.#attempt('chains of nftables', async () => {
      for (const chain of await this.#ports.kernel.listForwardChains()) this.#warn(chain, written);
      return true;
    });
  }

  /** Answers what the work answers, and false where it fails. One that fails keeps no other. */
  async #attempt(place: string, work: () => Promise<boolean>): Promise<boolean> {
    const subject = `${place} cannot be looked at`;
    try {
      const answer = await work();
      this.#told.delete(subject);
      return answer;
    } catch (error) {
      const words = `${subject}: ${(error as Error).message}. If it drops forwarded packets, connections to Services may hang`;
      if (this.#isNew(subject)) this.#ports.logger.warn(words, { code: findErrorCode(error) });
      return false;
    }
  }

  /** Answers whether connections pass there. */
  async #accept(family: Family, dialect: IptablesDialect, place: string): Promise<boolean> {
    const { kernel, logger } = this.#ports;
    const output = await kernel.readFilter(family, dialect, acceptChains);
    if (output === null) return false;
    const seen = parseSave(output);
    // Native rules of nft: nothing is written there, and its policy is told as any other table's.
    if (seen.unread.includes('filter')) return false;
    const input = planAccept(seen, this.#listAddresses(family));
    if (input === '') return true;
    await kernel.restore({ family, dialect, input });
    const isGone = input.includes(`-X ${acceptChain}`);
    logger.info(
      isGone
        ? `${place} drops nothing for vipnat to overrule: chain ${acceptChain} is removed`
        : `${place} drops packets: chain ${acceptChain} lets connections to Services pass`,
    );
    return true;
  }

  #warn({ table, name, isDropping }: ForwardChain, written: readonly string[]): void {
    const place = `${table} ${name}`;
    if (!isDropping || written.includes(place)) {
      this.#told.delete(place);
      return;
    }
    if (!this.#isNew(place)) return;
    this.#ports.logger.warn(
      `chain ${name} of table ${table} drops forwarded packets by its policy: connections to Services may hang. nft insert rule ${place} ct status dnat accept lets them pass`,
    );
  }

  #listAddresses(family: Family): Address[] {
    return [...this.#addresses]
      .map(parseAddress)
      .filter((address) => address?.family === family) as Address[];
  }

  #isNew(subject: string): boolean {
    const isNew = !this.#told.has(subject);
    this.#told.add(subject);
    return isNew;
  }
}
