import { type Machine } from '../../../../lab/machines/machine.ts';
import { findOwnRules, renderDamage, type tidyDamages } from '../../foreign/damage.ts';
import { findTableRules, renderTableDamage } from '../../foreign/damage-table.ts';

/** What can be done to a rule of vipnat's. */
export type Tampering = (typeof tidyDamages)[number];

/** A rule of vipnat's on a master, and the way to damage it: a command and its input. */
export interface FoundRule {
  readonly command: readonly string[];
  readonly render: (damage: Tampering) => string;
}

const ownTable = 'ip vipnat';

/** All rules of vipnat's that lead connections, in every dialect: its chains' and its hooks. */
export async function listOwnRules(machine: Machine): Promise<FoundRule[]> {
  const [nft, legacy, table] = await Promise.all([
    listSaved(machine, 'iptables-nft'),
    listSaved(machine, 'iptables-legacy'),
    machine.run(['nft', '--handle', 'list', 'table', ...ownTable.split(' ')]),
  ]);
  const inTable = findTableRules(ownTable, table.stdout).map((rule) => ({
    command: ['nft', '-f', '-'],
    render: (damage: Tampering) => renderTableDamage(rule, damage),
  }));
  return [...nft, ...legacy, ...inTable];
}

async function listSaved(machine: Machine, tool: string): Promise<FoundRule[]> {
  const { stdout } = await machine.run([`${tool}-save`]);
  return findOwnRules(stdout).map((rule) => ({
    command: [`${tool}-restore`, '--noflush', '-w', '40'],
    render: (damage) => renderDamage(rule, damage),
  }));
}
