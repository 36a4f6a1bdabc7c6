import { type Family } from '../../address/address.ts';
import { isNftName } from './nft-name.ts';
import { execTool, runTool } from '../tools/exec.ts';
import { parseObjects } from './nft-json.ts';
import { type ForwardChain } from '../port.ts';
import { ownTable } from '../netlink/own-table.ts';
import { toolFailed } from '../tools/tool-errors.ts';
import { isInPath } from '../tools/toolbox.ts';

/** nftables' chains for packets on their way through this host, iptables-nft's included. None where nft is missing. */
export async function listForwardChains(limitMs: number): Promise<readonly ForwardChain[]> {
  const chains = (await listChains(limitMs)).filter(
    ({ hook, type }) => hook === 'forward' && type === 'filter',
  );
  return await Promise.all(
    chains.map(async (chain) => ({
      table: `${chain.family} ${chain.table}`,
      name: chain.name,
      isDropping: chain.policy === 'drop' && !(await letsPassTranslated(chain, limitMs)),
    })),
  );
}

/** The families whose connections a table of nftables translates, but for our own table and those of iptables-nft. None where nft is missing. */
export async function listTranslatedFamilies(limitMs = 10_000): Promise<ReadonlySet<Family>> {
  const others = (await listChains(limitMs)).filter(
    ({ type, family, table }) =>
      type === 'nat' && table !== ownTable && (table !== 'nat' || family === 'inet'),
  );
  return new Set(others.flatMap(({ family }) => nftToFamilies[family] ?? []));
}

/** nftables' families to those of addresses. */
const nftToFamilies: Readonly<Record<string, readonly Family[]>> = {
  ip: ['ipv4'],
  ip6: ['ipv6'],
  inet: ['ipv4', 'ipv6'],
};

async function listChains(limitMs: number): Promise<readonly Chain[]> {
  if (!isInPath('nft')) return [];
  const words = ['-j', 'list', 'chains'];
  const call = { tool: 'nft', arguments: words, limitMs, isPatient: true } as const;
  const { exitCode, stdout, stderr } = await execTool(call);
  if (exitCode !== 0) throw toolFailed({ tool: `nft ${words.join(' ')}`, exitCode, stderr, input: '' });
  return (parseObjects(stdout) as readonly ChainObject[]).flatMap(({ chain }) => chain ?? []);
}

/** As far as it matters here, see libnftables-json(5). */
interface ChainObject {
  readonly chain?: Chain;
}

interface Chain {
  readonly family: string;
  readonly table: string;
  readonly name: string;
  readonly hook?: string;
  readonly type?: string;
  readonly policy?: string;
}

/** The rule that `check` and `doctor` ask its owner for, with or without a counter and a comment. A chain that goes meanwhile, or cannot be asked for, lets nothing pass. */
async function letsPassTranslated({ family, table, name }: Chain, limitMs: number): Promise<boolean> {
  if (![family, table, name].every(isNftName)) return false;
  const call = { tool: 'nft', arguments: ['list', 'chain', family, table, name], limitMs, isPatient: true };
  const text = await runTool(call).catch(() => '');
  return /^\s+ct status dnat (?:counter packets \d+ bytes \d+ )?accept(?: comment ".*")?$/m.test(text);
}
