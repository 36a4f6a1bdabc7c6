import { type Family } from '../../address/address.ts';
import { nameOwnTable } from '../netlink/own-table.ts';
import { execTool, type RunTool, runTool, type ToolCommand } from '../tools/exec.ts';
import { type NftTableOutput, type Transaction } from '../port.ts';
import { toolFailed, toolMissing } from '../tools/tool-errors.ts';
import { isInPath } from '../tools/toolbox.ts';
import { VipnatError } from '../../text/errors.ts';

/** What nft prints of our own table, by its name: no rule of anybody else's is loaded for that. Null where nft is missing; nft is not asked for a table that is known not to exist. */
export async function readNftTable(
  family: Family,
  limitMs: number,
  mayExist = true,
): Promise<NftTableOutput | null> {
  if (!isInPath('nft')) return null;
  if (!mayExist) return { family, text: '' };
  // Sets without their elements.
  return { family, text: await listNftTable(nameOwnTable(family), ['-t'], limitMs) };
}

/** What nft prints of a table (`ip vipnat`); empty where there is none. */
export async function listNftTable(
  table: string,
  options: readonly string[],
  limitMs: number,
): Promise<string> {
  return await listNftObject(['table', ...table.split(' ')], options, limitMs);
}

/** What nft prints of an object, by its words (`set ip vipnat alive`); empty where there is none. */
export async function listNftObject(
  words: readonly string[],
  options: readonly string[],
  limitMs: number,
): Promise<string> {
  const object = ['list', ...words];
  const { exitCode, stdout, stderr } = await execTool({
    tool: 'nft',
    // Numbers for names, so that what is printed depends on no file of this host.
    arguments: ['-n', ...options, ...object],
    limitMs,
    isPatient: true,
  });
  if (exitCode === 0) return stdout;
  // nft 1.0.6: `Error: No such file or directory`.
  if (stderr.includes('No such file or directory')) return '';
  throw toolFailed({ tool: `nft ${object.join(' ')}`, exitCode, stderr, input: '' });
}

/** What runs a script for nftables. */
export const nftScript: ToolCommand = { tool: 'nft', arguments: ['-f', '-'] };

/** Whether nft, or the kernel behind it, has refused what it was asked: it works, and would refuse that again. */
export function isNftRefusal(error: unknown): boolean {
  return error instanceof VipnatError && error.code === 'TOOL_FAILED';
}

/** How nft is started. */
export interface NftRun {
  /** What is to start it; execTool unless given. */
  readonly run?: RunTool;
  /** Whether nothing shall take effect: nft and the kernel say only whether they would take it. */
  readonly isTrial?: boolean;
}

/** Runs one script: all of it takes effect, or nothing. */
export async function runNft(
  { input }: Transaction,
  limitMs: number,
  { run = execTool, isTrial = false }: NftRun = {},
): Promise<void> {
  if (!isInPath('nft')) throw toolMissing('nft');
  const options = isTrial ? ['-c'] : [];
  const { exitCode, stderr } = await run({
    ...nftScript,
    arguments: [...options, ...nftScript.arguments],
    input,
    limitMs,
  });
  if (exitCode === 0) return;
  // nft 0.9.8 opens /dev/stdin anew, which cannot be done with the socket that Node gives it.
  if (!stderr.includes('Could not open file "/dev/stdin"')) {
    throw toolFailed({ tool: 'nft', exitCode, stderr, input });
  }
  await runTool({ tool: 'nft', arguments: [...options, input], limitMs });
}
