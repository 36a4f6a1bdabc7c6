import type { Family } from '../../../../lib/address/address.ts';
import type { IptablesDialect } from '../../../../lib/kernel/port.ts';
import { toolName } from '../../../../lib/kernel/tools/tool-name.ts';
import { type Damage, findOwnRules, pick, renderDamage } from '../../foreign/damage.ts';
import type { Host } from './host.ts';

/** Does something to one of our rules, the `index`th of those that are there; nothing where there are none. */
export async function damageOwnRule(
  host: Host,
  { family, dialect }: { family: Family; dialect: IptablesDialect },
  damage: Damage,
  index: number,
): Promise<void> {
  const rule = pick(findOwnRules(await host.shell(toolName(family, dialect, 'save'))), index);
  if (rule === undefined) return;
  // The agent may be faster: then the rule is not there any more, and nothing happens.
  await host.run([toolName(family, dialect, 'restore'), '--noflush', '-w', '40'], {
    input: renderDamage(rule, damage),
  });
}

/**
 * Rules as other versions of vipnat left them: chains of names that this one does not have, its hooks with ids that it would not
 * give, and its own chains with another content.
 */
export async function plantOtherVersion(
  host: Host,
  { family, dialect }: { family: Family; dialect: IptablesDialect },
  vip: string,
): Promise<void> {
  const id = (digit: number) => `-m comment --comment "vipnat:${String(digit).repeat(16)}"`;
  const suffix = family === 'ipv4' ? '/32' : '/128';
  const script = `*nat
:VIPNAT - [0:0]
:VIPNAT-OLD0000000 - [0:0]
:VIPNAT-POSTROUTING - [0:0]
-I PREROUTING ${id(1)} -j VIPNAT
-A OUTPUT ${id(2)} -j VIPNAT
-A POSTROUTING ${id(3)} -j VIPNAT-POSTROUTING
-A VIPNAT -d ${vip}${suffix} -p tcp -m tcp --dport 6443 ${id(4)} -j VIPNAT-OLD0000000
-A VIPNAT-OLD0000000 ${id(5)} -p tcp -j RETURN
-A VIPNAT-POSTROUTING -d ${vip}${suffix} ${id(6)} -j RETURN
COMMIT
*filter
:VIPNAT-INPUT-OLD - [0:0]
-A INPUT ${id(7)} -j VIPNAT-INPUT-OLD
COMMIT
`;
  // The agent may be writing: what is refused then did not happen.
  await host.run([toolName(family, dialect, 'restore'), '--noflush', '-w', '40'], { input: script });
}
