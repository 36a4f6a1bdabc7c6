import type { Family } from '../../../../lib/address/address.ts';
import type { IptablesDialect } from '../../../../lib/kernel/port.ts';
import { toolName } from '../../../../lib/kernel/tools/tool-name.ts';
import type { Host } from './host.ts';

/** What can be done to one of our rules. */
export const damages = [
  'delete',
  'duplicate',
  'move to the end',
  'edit',
  'put a rule before',
  'flush its chain',
] as const;

/** One of damages. */
export type Damage = (typeof damages)[number];

/** A rule of ours as iptables-save prints it, and where. */
interface Place {
  readonly table: string;
  readonly chain: string;
  /** Its number in the chain, from 1. */
  readonly number: number;
  readonly rule: string;
}

/** Edits that leave the comment, and with it the id, as it is. */
const edits: readonly (readonly [from: RegExp, to: string])[] = [
  [/--to-destination \S+/, '--to-destination 203.0.113.9:6443'],
  [/--ctorigdstport 6443/, '--ctorigdstport 6444'],
  [/--dport 6443/, '--dport 6444'],
  [/-j MASQUERADE.*/, '-j RETURN'],
  [/-j ACCEPT/, '-j DROP'],
  [/-j VIPNAT\S*/, '-j RETURN'],
];

/** Does something to one of our rules, the `index`th of those that are there; nothing where there are none. */
export async function damageOwnRule(
  host: Host,
  { family, dialect }: { family: Family; dialect: IptablesDialect },
  damage: Damage,
  index: number,
): Promise<void> {
  const tool = toolName(family, dialect);
  const places = findOwnRules(await host.shell(`${tool}-save`));
  const place = places[index % Math.max(1, places.length)];
  if (place === undefined) return;
  const script = renderDamage(place, damage);
  // The agent may be faster: then the rule is not there any more, and nothing happens.
  await host.run([`${tool}-restore`, '--noflush', '-w', '40'], {
    input: `*${place.table}\n${script}\nCOMMIT\n`,
  });
}

function renderDamage({ chain, number, rule }: Place, damage: Damage): string {
  const text = rule.replace(/^-A \S+ /, '');
  const [from, to] = edits.find(([pattern]) => pattern.test(text)) ?? [/$/, ''];
  const edited = text.replace(from, to);
  const isOwn = chain.startsWith('VIPNAT');
  const damageToScript: Readonly<Record<Damage, string>> = {
    delete: `-D ${chain} ${text}`,
    duplicate: `-I ${chain} ${text}`,
    'move to the end': `-D ${chain} ${text}\n-A ${chain} ${text}`,
    // By numbers only in our own chains: another's rule could have this one by now.
    edit: isOwn ? `-R ${chain} ${number} ${edited}` : `-D ${chain} ${text}\n-I ${chain} ${edited}`,
    'put a rule before': isOwn ? `-I ${chain} ${number} -j RETURN` : `-I ${chain} ${text}`,
    'flush its chain': isOwn ? `-F ${chain}` : `-D ${chain} ${text}`,
  };
  return damageToScript[damage];
}

function findOwnRules(save: string): Place[] {
  const places: Place[] = [];
  const chainToCount = new Map<string, number>();
  let table = '';
  for (const line of save.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1);
    const chain = /^-A (\S+)/.exec(line)?.[1];
    if (chain === undefined) continue;
    const number = (chainToCount.get(`${table} ${chain}`) ?? 0) + 1;
    chainToCount.set(`${table} ${chain}`, number);
    if (/VIPNAT|"vipnat:/.test(line)) places.push({ table, chain, number, rule: line });
  }
  return places;
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
