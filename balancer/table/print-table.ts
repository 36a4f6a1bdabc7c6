import { type Family } from '../../lib/address/address.ts';
import { type ElementChange } from '../../lib/kernel/netlink/nft-elements.ts';
import { diffTables, type TableStep } from './diff-tables.ts';
import { listAliveProtocols, shared } from './skeleton.ts';
import { type NftTable, emptyTable } from '../../lib/netfilter/nftables/ruleset.ts';
import { nameTable } from '../../lib/services/balancer-table.ts';

/** A script that says that the balancer lives, and so has the rules of these families count. */
export function printRenewal(families: readonly Family[]): string {
  return families
    .flatMap((family) => {
      const set = `${nameTable(family)} ${shared.alive}`;
      // Emptied first: before Linux 6.12 an element that is there keeps its time.
      return [`flush set ${set}`, `add element ${set} { ${listAliveProtocols(family).join(', ')} }`];
    })
    .map((command) => `${command}\n`)
    .join('');
}

/** The commands of nft that a step is. */
export function printStep({ before, elements, after }: TableStep): readonly string[] {
  return [...before, ...elements.flatMap(printElements), ...after];
}

/** nft takes a line of any length, and reads it in one go. */
function printElements({ family, set, removed, added }: ElementChange): string[] {
  const place = `element ${nameTable(family)} ${set}`;
  const print = (verb: string, elements: readonly string[]) =>
    elements.length === 0 ? [] : [`${verb} ${place} { ${elements.join(', ')} }`];
  const texts = added.map(([key, value]) => (value === '' ? key : `${key} : ${value}`));
  return [...print('delete', removed), ...print('add', texts)];
}

/** A script that replaces the table whole in one transaction, whether or not there is one. */
export function printReplacement(family: Family, wanted: NftTable): string {
  return `${[...removeTable(family), `add table ${nameTable(family)}`, ...fillTable(family, wanted)].join('\n')}\n`;
}

/** A script that removes the table, whether or not there is one. */
export function printRemoval(family: Family): string {
  return `${removeTable(family).join('\n')}\n`;
}

/** Adding before deleting makes it work where there is none. */
function removeTable(family: Family): string[] {
  return [`add table ${nameTable(family)}`, `delete table ${nameTable(family)}`];
}

function fillTable(family: Family, wanted: NftTable): readonly string[] {
  const change = diffTables({ family, seen: emptyTable, wanted });
  return change === null ? [] : printStep(change.now);
}
