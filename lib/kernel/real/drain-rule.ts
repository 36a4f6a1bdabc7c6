import { refusedPorts } from '../../address/drain-ports.ts';
import { toolMissing } from '../tools/tool-errors.ts';
import { isInPath } from '../tools/toolbox.ts';
import { parseObjects } from './nft-json.ts';
import { listNftTable, runNft } from './nft-table.ts';

/** The rule of a drained host, in a table of its own that holds nothing else. Both methods reject with TOOL_MISSING, TOOL_NOT_PERMITTED or TOOL_FAILED. */
export interface DrainRule {
  /** The apiservers' ports at which drain checks are refused, ascending; null for a table that refuses otherwise. Empty where there is none. */
  read(): Promise<readonly number[] | null>;
  /** Has drain checks refused at these ports and at no others; without any, removes the table. All of it takes effect, or nothing. */
  write(ports: readonly number[]): Promise<void>;
}

/** The table's name with its family. Whatever it holds is vipnat's. */
export const drainTable = 'inet vipnat-drain';

const limitMs = 15_000;

/** That of this network namespace. Takes nft: also a host whose other rules are in iptables-legacy has nf_tables for it. */
export function createDrainRule(): DrainRule {
  return {
    async read() {
      if (!isInPath('nft')) throw toolMissing('nft');
      const text = await listNftTable(drainTable, ['-j'], limitMs);
      return text === '' ? [] : parseDrainTable(text);
    },
    async write(ports) {
      await runNft({ family: 'ipv4', dialect: 'nftables', input: renderDrainTable(ports) }, limitMs);
    },
  };
}

/** The script for nft, for people too. Pure. */
export function renderDrainTable(ports: readonly number[]): string {
  // What is not there cannot be deleted: so it is added first.
  const removal = `add table ${drainTable}\ndelete table ${drainTable}\n`;
  if (ports.length === 0) return removal;
  const { first, last } = refusedPorts;
  const rules = ports.map(
    (port) => `    tcp dport ${port} tcp sport ${first}-${last} reject with tcp reset\n`,
  );
  return `${removal}table ${drainTable} {
  chain input {
    type filter hook input priority -10; policy accept;
${rules.join('')}  }
}
`;
}

/** What `nft -j list table` printed; null where it is not as renderDrainTable has it. */
function parseDrainTable(text: string): readonly number[] | null {
  const objects = parseObjects(text);
  const chains = objects.flatMap(({ chain }) => (isRecord(chain) ? [chain] : []));
  const rules = objects.flatMap(({ rule }) => (isRecord(rule) ? [JSON.stringify(rule['expr'])] : []));
  const isOurs = chains.length === 1 && chains[0]?.['hook'] === 'input' && chains[0]['policy'] === 'accept';
  const ports = rules.map((rule) => Number(/"right": ?(\d+)/.exec(rule)?.[1]));
  return isOurs && ports.every((port, index) => rules[index] === printRule(port))
    ? ports.toSorted((one, other) => one - other)
    : null;
}

/** As nft 1.0.6 to 1.1.7 print it. */
function printRule(port: number): string {
  const match = (field: string, right: unknown) => ({
    match: { op: '==', left: { payload: { protocol: 'tcp', field } }, right },
  });
  const range = { range: [refusedPorts.first, refusedPorts.last] };
  return JSON.stringify([match('dport', port), match('sport', range), { reject: { type: 'tcp reset' } }]);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
