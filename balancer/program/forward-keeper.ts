import { type Address, families, type Family, parseAddress } from '../../lib/address/address.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { type BalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { type ForwardChain, type IptablesDialect, iptablesDialects } from '../../lib/kernel/port.ts';
import { toolName } from '../../lib/kernel/tools/tool-name.ts';
import { parseSave } from '../../lib/netfilter/iptables/parse.ts';
import { findErrorCode } from '../../lib/text/errors.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { acceptChain, planAccept } from '../decide/accept-forwarded.ts';

/** Reading takes four tools: so often at most while tables change all the time. */
const paceMs = 5000;

/** nft takes 0.3 s of a processor with 1,000 Services, however few chains others have. */
const chainsMs = 300_000;

/** iptables-legacy tells nobody of a change. */
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
    this.#work = this.#look().finally(() => (this.#work = null));
  }

  /** Waits for the look under way. The chain stays. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#work;
  }

  async #look(): Promise<void> {
    const written: string[] = [];
    for (const family of families) {
      for (const dialect of iptablesDialects) {
        const place = `chain FORWARD of ${toolName(family, dialect)}`;
        const isRead = await this.#attempt(place, () => this.#accept(family, dialect, place));
        if (isRead && dialect === 'nft') written.push(`${family === 'ipv6' ? 'ip6' : 'ip'} filter FORWARD`);
      }
    }
    const now = this.#ports.clock.now();
    if (now - this.#chainsLookedAt < chainsMs) return;
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

  /** Answers whether there is such an iptables. */
  async #accept(family: Family, dialect: IptablesDialect, place: string): Promise<boolean> {
    const { kernel, logger } = this.#ports;
    const output = await kernel.readFilter(family, dialect);
    if (output === null) return false;
    const input = planAccept(parseSave(output), this.#listAddresses(family));
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
