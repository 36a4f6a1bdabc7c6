import { balancerChain, type Ruleset, parseSave } from '../../lib/iptables/rules.ts';
import { type Address, toPrefixes, families, type Family, parseAddress } from '../../lib/net.ts';
import { dropsForwarded, leadsToPolicy } from '../../lib/iptables/diff.ts';
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { BalancerKernel } from '../../lib/kernel/kernel.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Logger } from '../../lib/telemetry/log.ts';
import {
  iptablesDialects,
  type IptablesDialect,
  toolName,
  familyToNft,
  type ForwardChain,
} from '../../lib/kernel/port.ts';
import { findErrorCode } from '../../lib/errors.ts';

/**
 * What lets connections to Services pass where other software drops what is forwarded: vipnat's own chain in iptables' table filter.
 *
 * Goal: connections that the balancer has sent to pods pass, and nothing else does.
 * Tension: a drop counts whatever other tables accept, and each packet that this host forwards passes the chain.
 * Compromise: the chain is there only while something drops. It looks at connections that were translated, by the address that
 * they asked for; addresses that are next to each other are one rule. Chains of network policies decide first.
 */

/** The chain of table filter. Everything in it is vipnat's. Its name is none of those that `vipnat run` takes for its own. */
const acceptChain = balancerChain;

/** The chains of table filter that `planAccept` goes by. */
export const acceptChains = ['FORWARD', acceptChain] as const;

/** What leads to it from FORWARD, as iptables-save prints it. */
const hook = `-j ${acceptChain}`;

/**
 * A script for iptables-restore --noflush that lets connections to these addresses, of the ruleset's family, pass where they are
 * dropped; empty where all is as it has to be. It takes the chain away where nothing is dropped. Pure.
 */
export function planAccept(seen: Ruleset, addresses: readonly Address[]): string {
  const filter = seen.tables.get('filter');
  if (seen.unread.includes('filter') || filter === undefined) return '';
  const isWanted = addresses.length > 0 && dropsForwarded(seen);
  const chain = filter.get(acceptChain);
  const forward = filter.get('FORWARD') ?? [];
  const hooks = forward.filter((rule) => rule === hook).map((rule) => `-D FORWARD ${rule}`);
  if (!isWanted) return chain === undefined ? '' : print([...hooks, `-X ${acceptChain}`]);
  return fill(chain, forward, hooks, renderRules(addresses));
}
/** `hooks` delete what leads to the chain. A correct one stays: a move of it would look like a change to other software that has a hook there. */
function fill(
  chain: readonly string[] | undefined,
  forward: readonly string[],
  hooks: readonly string[],
  rules: readonly string[],
): string {
  const others = forward.filter((rule) => rule !== hook);
  const place = findPlace(others);
  const isInPlace =
    hooks.length === 1 && place.first <= forward.indexOf(hook) && forward.indexOf(hook) <= place.last;
  if (isSame(chain, rules) && isInPlace) return '';
  const filled = rules.map((rule) => `-A ${acceptChain} ${rule}`);
  return print(isInPlace ? filled : [...hooks, ...filled, `-I FORWARD ${place.first + 1} ${hook}`]);
}

function print(lines: readonly string[]): string {
  // Declaring the chain makes it, or empties it.
  return ['*filter', `:${acceptChain} - [0:0]`, ...lines, 'COMMIT', ''].join('\n');
}

/** The first rule says by its comment what all of them are: iptables does not print rules as they were written. */
function renderRules(addresses: readonly Address[]): string[] {
  const prefixes = toPrefixes(addresses);
  const content = createHash('sha256').update(prefixes.join()).digest('base64url').slice(0, 16);
  return [
    `-m comment --comment "viplb:${content}" -m conntrack ! --ctstate DNAT -j RETURN`,
    ...prefixes.map((prefix) => `-m conntrack --ctstate DNAT --ctorigdst ${prefix} -j ACCEPT`),
  ];
}

function isSame(chain: readonly string[] | undefined, rules: readonly string[]): boolean {
  const [, comment = ''] = /"viplb:([^"]+)"/.exec(rules[0] ?? '') ?? [];
  return chain?.length === rules.length && chain[0]?.includes(`viplb:${comment}`) === true;
}

/**
 * Before how many foreign rules it may be: behind each chain of a network policy, and before all that drops. Where a drop is before
 * such a chain, nothing of what drops there gets to the chain anyway. Other chains may drop, too: their place is their owners' choice.
 */
function findPlace(others: readonly string[]): { readonly first: number; readonly last: number } {
  const drop = others.findIndex((rule) => /(?:^| )-j (?:DROP|REJECT)\b/.test(rule));
  const last = drop < 0 ? others.length : drop;
  return { first: others.slice(0, last).findLastIndex(leadsToPolicy) + 1, last };
}

/**
 * How often it looks.
 *
 * Goal: a chain FORWARD that begins to drop is noticed in seconds.
 * Tension: others write to nftables all the time, and tools that list rules begin again at each of their commits: such a tool never ends, and
 * takes a processor.
 * Compromise: a check starts no tool while these chains of iptables-nft and nftables stay as they are, and asks the kernel for a list of chains.
 * It comes when addresses change, once in five seconds at most while only tables change, and each minute. iptables-legacy has no such list: its
 * tool runs when addresses change, and each minute.
 */
const paceMs = 5000;

/** Changes of iptables-legacy move no generation of nftables. */
const tickMs = 60_000;

/** What the caller supplies. */
export interface ForwardPorts {
  readonly kernel: Pick<BalancerKernel, 'readFilter' | 'restore' | 'listForwardChains'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Lets connections to Services pass where this host drops them, and names what it cannot overrule. A failure is reported once, and tried again. */
export class ForwardKeeper {
  readonly #ports: ForwardPorts;
  readonly #reported = new Set<string>();
  #work: Promise<void> | null = null;
  #addresses: ReadonlySet<string> = new Set();
  #checkedAt = -Infinity;
  #legacyCheckedAt = -Infinity;
  #chainsCheckedAt = -Infinity;
  #isStopped = false;

  constructor(ports: ForwardPorts) {
    this.#ports = ports;
  }

  /** Takes the addresses of all Services, and whether tables have changed. Returns immediately. */
  keep(addresses: ReadonlySet<string>, haveTablesChanged: boolean): void {
    const now = this.#ports.clock.now();
    const isSame = isDeepStrictEqual(addresses, this.#addresses);
    const restMs = haveTablesChanged ? paceMs : tickMs;
    if (this.#work !== null || this.#isStopped || (isSame && now - this.#checkedAt < restMs)) return;
    this.#addresses = new Set(addresses);
    this.#checkedAt = now;
    const isLegacyDue = !isSame || now - this.#legacyCheckedAt >= tickMs;
    if (isLegacyDue) this.#legacyCheckedAt = now;
    const dialects = iptablesDialects.filter((dialect) => dialect === 'nft' || isLegacyDue);
    this.#work = this.#sync(dialects).finally(() => (this.#work = null));
  }

  /** Waits for the check in progress. The chain stays. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#work;
  }

  async #sync(dialects: readonly IptablesDialect[]): Promise<void> {
    const written: string[] = [];
    for (const family of families) {
      for (const dialect of dialects) {
        const place = `chain FORWARD of ${toolName(family, dialect)}`;
        const isRead = await this.#attempt(place, () => this.#accept(family, dialect, place));
        if (isRead && dialect === 'nft') written.push(`${familyToNft[family]} filter FORWARD`);
      }
    }
    const now = this.#ports.clock.now();
    if (now - this.#chainsCheckedAt < tickMs) return;
    this.#chainsCheckedAt = now;
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
      this.#reported.delete(subject);
      return answer;
    } catch (error) {
      const detail = `${subject}: ${(error as Error).message}. If it drops forwarded packets, connections to Services may hang`;
      if (this.#isNew(subject)) this.#ports.logger.warn(detail, { code: findErrorCode(error) });
      return false;
    }
  }

  /** Answers whether connections pass there. */
  async #accept(family: Family, dialect: IptablesDialect, place: string): Promise<boolean> {
    const { kernel, logger } = this.#ports;
    const output = await kernel.readFilter(family, dialect, acceptChains);
    if (output === null) return false;
    const seen = parseSave(output);
    // Native rules of nft: nothing is written there, and its policy is reported like any other table's.
    if (seen.unread.includes('filter')) return false;
    const all = [...this.#addresses].flatMap((text) => parseAddress(text) ?? []);
    const addresses = all.filter((address) => address.family === family);
    const input = planAccept(seen, addresses);
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
      this.#reported.delete(place);
      return;
    }
    if (!this.#isNew(place)) return;
    this.#ports.logger.warn(
      `chain ${name} of table ${table} drops forwarded packets by its policy: connections to Services may hang. nft insert rule ${place} ct status dnat accept lets them pass`,
    );
  }

  #isNew(subject: string): boolean {
    const isNew = !this.#reported.has(subject);
    this.#reported.add(subject);
    return isNew;
  }
}
