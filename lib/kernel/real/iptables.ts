import { familyToNft } from '../netlink/nft-chains.ts';
import { readFile } from 'node:fs/promises';
import { type Family } from '../../address/address.ts';
import { makeBaseChains } from './base-chains.ts';
import { toolName } from '../tools/tool-name.ts';
import { execTool, type RunTool, runTool, type ToolCommand } from '../tools/exec.ts';
import { type IptablesDialect, iptablesDialects, type SaveOutput, type Transaction } from '../port.ts';
import { toolMissing, toolNotPermitted } from '../tools/tool-errors.ts';
import { isInPath, type Toolbox } from '../tools/toolbox.ts';

/**
 * What one backend's save tool prints for one family. A backend that holds no table is never touched by it, and its
 * text is empty. Null on a host that runs legacy only, for nft.
 */
export async function saveIptables(toolbox: Toolbox, source: SaveSource): Promise<SaveOutput | null> {
  const { family, dialect, limitMs, table } = source;
  if (dialect === 'legacy' && !(await hasLegacyTables(family, table))) return { family, dialect, text: '' };
  const tool = dialect === 'nft' ? await findNftSave(toolbox, family) : await findLegacySave(toolbox, family);
  if (tool === null) return null;
  const words = table === undefined ? [] : ['-t', table];
  return { family, dialect, text: await runTool({ tool, arguments: words, limitMs, isPatient: true }) };
}

/** Which rules to read, and for how long the tool may take. */
export interface SaveSource {
  readonly family: Family;
  readonly dialect: IptablesDialect;
  readonly limitMs: number;
  /** This one only; all by default. */
  readonly table?: string;
}

/** A transaction for a dialect of iptables. */
export type IptablesTransaction = Transaction & { readonly dialect: IptablesDialect };

/** Whether a transaction is one. */
export function isForIptables(transaction: Transaction): transaction is IptablesTransaction {
  return transaction.dialect !== 'nftables';
}

/**
 * Whether an iptables of this family is installed, of whichever backend; so to speak also where nft is missing too:
 * reading then says what to install.
 */
export function hasIptables(family: Family): boolean {
  if (!isInPath('nft')) return true;
  const plain = family === 'ipv6' ? 'ip6tables-save' : 'iptables-save';
  return [plain, ...iptablesDialects.map((dialect) => toolName(family, dialect, 'save'))].some(isInPath);
}

/** What restores rules of one family and dialect; null where it is not installed. */
export async function findRestore(
  toolbox: Toolbox,
  { family, dialect }: Pick<IptablesTransaction, 'family' | 'dialect'>,
): Promise<ToolCommand | null> {
  const tool = await toolbox.find(family, dialect, 'restore');
  // Legacy waits up to 5 s for the lock that everybody shares, then exits with 4; nft has no lock and takes the flag.
  return tool === null ? null : { tool, arguments: ['--noflush', '-w', '5'] };
}

/** Runs one restore script: all of a table's lines take effect at its COMMIT, or none. */
export async function restoreIptables(
  toolbox: Toolbox,
  { family, dialect, input }: IptablesTransaction,
  { limitMs, run = execTool }: WriteOptions,
): Promise<void> {
  const restore = await findRestore(toolbox, { family, dialect });
  if (restore === null) throw toolMissing(toolName(family, dialect, 'restore'));
  if (dialect === 'nft') await makeBaseChains(family, input, limitMs);
  await runTool({ ...restore, input, limitMs }, run);
}

/** How a write is made. */
export interface WriteOptions {
  /** For how long a tool may take. */
  readonly limitMs: number;
  /** What runs it; execTool by default. */
  readonly run?: RunTool;
}

/** Null on a host that runs legacy only; with neither backend's tool we would be blind. */
async function findNftSave(toolbox: Toolbox, family: Family): Promise<string | null> {
  const tool = await toolbox.find(family, 'nft', 'save');
  if (tool === null && (await toolbox.find(family, 'legacy', 'save')) === null) {
    throw toolMissing(toolName(family, 'nft', 'save'));
  }
  return tool;
}

async function findLegacySave(toolbox: Toolbox, family: Family): Promise<string> {
  const tool = await toolbox.find(family, 'legacy', 'save');
  if (tool === null) throw toolMissing(toolName(family, 'legacy', 'save'));
  return tool;
}

/** Asking iptables-legacy for a table creates it, and with it a second set of hooks in every packet's way: ask the kernel first. */
async function hasLegacyTables(family: Family, table?: string): Promise<boolean> {
  const path = `/proc/net/${familyToNft[family]}_tables_names`;
  try {
    const names = (await readFile(path, 'utf8')).split('\n').filter((name) => name !== '');
    return table === undefined ? names.length > 0 : names.includes(table);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return false;
    throw toolNotPermitted(`reading ${path}`, code ?? 'unknown');
  }
}
