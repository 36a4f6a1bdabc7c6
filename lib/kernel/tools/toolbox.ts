import { accessSync, constants, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Family } from '../../address/address.ts';
import { toolName } from './tool-name.ts';
import { runTool } from './exec.ts';
import { type IptablesDialect } from '../port.ts';
import { toSearchPath } from './search-path.ts';

/** Which tool does what on this host. */
export interface Toolbox {
  /**
   * The name of the tool that saves or restores one backend's rules: `iptables-nft-save`, or plain `iptables-save`
   * on a host that has only that and where it is of this backend. Without a suffix it is the one that lists chains. Null when the
   * host has none.
   */
  find(family: Family, dialect: IptablesDialect, suffix?: 'save' | 'restore'): Promise<string | null>;
}

/** Looks for tools at every call, so tools may come and go; a plain tool is asked once which dialect it writes. */
export function createToolbox(limitMs: number): Toolbox {
  const toolToBackend = new Map<string, IptablesDialect>();

  async function askBackend(tool: string): Promise<IptablesDialect> {
    const known = toolToBackend.get(tool);
    if (known !== undefined) return known;
    const version = await runTool({ tool, arguments: ['--version'], limitMs });
    // `iptables-save v1.8.9 (nf_tables)`; before 1.8.0 there was no other than legacy and no parenthesis.
    const dialect = version.includes('(nf_tables)') ? 'nft' : 'legacy';
    toolToBackend.set(tool, dialect);
    return dialect;
  }

  return {
    async find(family, dialect, suffix) {
      const named = toolName(family, dialect, suffix);
      if (isInPath(named)) return named;
      const plain = named.replace(`-${dialect}`, '');
      return isInPath(plain) && (await askBackend(plain)) === dialect ? plain : null;
    },
  };
}

/** Whether there is an executable file of this name where tools are looked for, see toSearchPath. A handful of microseconds: asking is cheaper than remembering. */
export function isInPath(tool: string): boolean {
  return findInPath(tool) !== null;
}

/** Which file a tool is, and which version of it: another text when it was replaced. Null where there is none. */
export function identifyTool(tool: string): string | null {
  const path = findInPath(tool);
  const file = path === null ? undefined : statSync(path, { throwIfNoEntry: false });
  return path === null || file === undefined ? null : `${path} ${file.dev} ${file.ino} ${file.mtimeMs}`;
}

function findInPath(tool: string): string | null {
  const folders = toSearchPath(process.env['PATH']).split(':');
  return folders.map((folder) => join(folder, tool)).find(isExecutable) ?? null;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
