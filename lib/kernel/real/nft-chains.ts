/**
 * Chains of nftables that are hooked into the way of packets, whoever they belong to.
 *
 * Goal: a look takes milliseconds and starts no tool while nothing of interest has changed.
 * Tension: nft reads all chains of the host first, and begins again at each commit of anybody (1.0.6). Only nft knows what a rule means.
 * Compromise: netlink tells the chains. What nft has printed of a chain that drops is remembered by the bytes of its rules. nft is asked for all
 * where netlink does not answer: it has more to say.
 */
import { type Family } from '../../address/address.ts';
import { VipnatError } from '../../text/errors.ts';
import { isNftName } from './nft-name.ts';
import { execTool, runTool } from '../tools/exec.ts';
import { parseObjects } from './nft-json.ts';
import { type ForwardChain } from '../port.ts';
import { listChains, type NftChain, type NftLayer } from '../netlink/nft-chains.ts';
import { ownTable } from '../netlink/own-table.ts';
import { settleAll } from '../tools/settle.ts';
import { toolFailed } from '../tools/tool-errors.ts';
import { isInPath } from '../tools/toolbox.ts';
import { withRuleClients } from './chain-snapshot.ts';
import { readOneMoment } from './one-moment.ts';
import { RuleMemory } from './rule-memory.ts';

/** Lists chains for packets on their way through this host, and remembers what their rules let pass. */
export class ForwardChains {
  readonly #limitMs: number;
  readonly #memory = new RuleMemory<boolean>();

  /** Each tool may take `limitMs`. */
  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  /** nftables' chains for such packets, iptables-nft's included. None where nft is missing. Rejects as nft does. */
  async list(): Promise<readonly ForwardChain[]> {
    const chains = (await listHookedChains(this.#limitMs)).filter(
      ({ isForward, type }) => isForward && type === 'filter',
    );
    return await settleAll(
      chains.map(async (chain) => ({
        table: `${chain.layer} ${chain.table}`,
        name: chain.name,
        isDropping: chain.isDropping && !(await this.#letsPassTranslated(chain)),
      })),
    );
  }

  /** A chain that goes meanwhile, or cannot be asked for, lets nothing pass. */
  async #letsPassTranslated({ layer, table, name }: HookedChain): Promise<boolean> {
    if (![table, name].every(isNftName)) return false;
    const words = ['list', 'chain', layer, table, name];
    const call = { tool: 'nft', arguments: words, limitMs: this.#limitMs, isPatient: true } as const;
    const place = { family: layer, table, chain: name };
    return await this.#memory.recall(place, async () => hasPassage(await runTool(call))).catch(() => false);
  }
}

/** Whether a chain has the rule that `check` and `doctor` ask its owner for, with or without a counter and a comment. */
function hasPassage(text: string): boolean {
  return /^\s+ct status dnat (?:counter packets \d+ bytes \d+ )?accept(?: comment ".*")?$/m.test(text);
}

/** The families whose connections a table of nftables translates, but for our own table and those of iptables-nft. None where nft is missing. */
export async function listTranslatedFamilies(limitMs = 10_000): Promise<ReadonlySet<Family>> {
  const others = (await listHookedChains(limitMs)).filter(
    ({ type, layer, table }) => type === 'nat' && table !== ownTable && (table !== 'nat' || layer === 'inet'),
  );
  return new Set(others.flatMap(({ layer }) => layerToFamilies[layer] ?? []));
}

/** nftables' families to those of addresses. */
const layerToFamilies: Readonly<Partial<Record<NftLayer, readonly Family[]>>> = {
  ip: ['ipv4'],
  ip6: ['ipv6'],
  inet: ['ipv4', 'ipv6'],
};

/** A chain with a hook. */
interface HookedChain {
  readonly layer: NftLayer;
  readonly table: string;
  readonly name: string;
  readonly type: string;
  readonly isForward: boolean;
  /** By its policy. */
  readonly isDropping: boolean;
}

async function listHookedChains(limitMs: number): Promise<readonly HookedChain[]> {
  if (!isInPath('nft')) return [];
  return (await askKernel()) ?? (await askNft(limitMs));
}

/** Null where the kernel does not answer, or chains change all the time. */
async function askKernel(): Promise<readonly HookedChain[] | null> {
  try {
    return await withRuleClients(({ short, long }) =>
      readOneMoment(short, async () => (await listChains(long)).flatMap(toHooked), JSON.stringify),
    );
  } catch (error) {
    if (error instanceof VipnatError) return null;
    throw error;
  }
}

function toHooked({ layer, table, name, type, policy, isForward }: NftChain): HookedChain[] {
  if (type === null || layer === null) return [];
  return [{ layer, table, name, type, isForward, isDropping: policy === 'DROP' }];
}

async function askNft(limitMs: number): Promise<readonly HookedChain[]> {
  const words = ['-j', 'list', 'chains'];
  const call = { tool: 'nft', arguments: words, limitMs, isPatient: true } as const;
  const { exitCode, stdout, stderr } = await execTool(call);
  if (exitCode !== 0) throw toolFailed({ tool: `nft ${words.join(' ')}`, exitCode, stderr, input: '' });
  return (parseObjects(stdout) as readonly ChainObject[]).flatMap(({ chain }) => {
    if (chain?.type === undefined) return [];
    const { family: layer, table, name, type, hook, policy } = chain;
    return [{ layer, table, name, type, isForward: hook === 'forward', isDropping: policy === 'drop' }];
  });
}

/** As far as it matters here, see libnftables-json(5). */
interface ChainObject {
  readonly chain?: {
    readonly family: NftLayer;
    readonly table: string;
    readonly name: string;
    readonly hook?: string;
    readonly type?: string;
    readonly policy?: string;
  };
}
