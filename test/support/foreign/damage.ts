/** What somebody else does to our rules: the same wherever there are rules of ours, in memory or in a kernel. */
import { isOurChain, isOurRule, type PrintedChain, readChains } from './printed-rules.ts';

interface OwnRule {
  readonly printed: PrintedChain;
  /** Its place in the chain, from 1. */
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

const damageToLines = {
  delete: remove,
  duplicate: ({ printed: { chain }, rule }) => [`-I ${chain} ${rule}`],
  'move to the end': (own) => [...remove(own), `-A ${own.printed.chain} ${own.rule}`],
  edit: (own) => replace(own, editRule(own.rule)),
  // In a chain of the kernel's, the rule once more: whoever adds one of its own there is not known to be right.
  'put a rule before': ({ printed: { chain }, number, rule }) =>
    isOurChain(chain) ? [`-I ${chain} ${number} -j RETURN`] : [`-I ${chain} ${rule}`],
  'flush its chain': ({ printed: { chain, rules } }) =>
    isOurChain(chain) ? [`-F ${chain}`] : rules.filter(isOurRule).map((rule) => `-D ${chain} ${rule}`),
  narrow: (own) => replace(own, `-m mark --mark 0x7 ${own.rule}`),
  redirect: (own) => replace(own, own.rule.replace(/-[jg] .*$/, '-j ACCEPT')),
  'strip its comment': (own) => replace(own, own.rule.replace(/-m comment --comment "[^"]*" /, '')),
  'put a strange rule before': ({ printed: { chain }, number }) => [`-I ${chain} ${number} -j RETURN`],
  'put a strange rule behind': ({ printed: { chain }, number }) => [
    `-I ${chain} ${number + 1} -m comment --comment "strange" -j ACCEPT`,
  ],
  'reverse its chain': ({ printed: { chain, rules } }) => [
    `-F ${chain}`,
    ...rules.toReversed().map((rule) => `-A ${chain} ${rule}`),
  ],
} satisfies Record<string, (own: OwnRule) => string[]>;

export type Damage = keyof typeof damageToLines;

/** Every damage; some of them leave rules of their own behind, or others' rules in another order. */
export const damages = Object.keys(damageToLines) as readonly Damage[];

/** Those that leave others' rules as they are, wherever the rule is. */
export const tidyDamages = [
  ...(['delete', 'duplicate', 'move to the end', 'edit'] as const),
  ...(['put a rule before', 'flush its chain'] as const),
] satisfies readonly Damage[];

/** All rules of ours in what a save tool prints. */
export function findOwnRules(save: string): OwnRule[] {
  return readChains(save).flatMap((printed) =>
    printed.rules.flatMap((rule, index) =>
      isOurChain(printed.chain) || isOurRule(rule) ? [{ printed, rule, number: index + 1 }] : [],
    ),
  );
}

/** The `at`-th of some, counted round and round; undefined where there are none. */
export function pick<One>(some: readonly One[], at: number): One | undefined {
  return some[at % Math.max(1, some.length)];
}

/**
 * A script for a restore tool with --noflush. It goes by the rule's text in others' chains, so that it fails whole, and does nothing,
 * when the rule is not there any more.
 */
export function renderDamage(own: OwnRule, damage: Damage): string {
  return [`*${own.printed.table}`, ...damageToLines[damage](own), 'COMMIT', ''].join('\n');
}

/** A rule with another meaning and the same comment. */
function editRule(rule: string): string {
  const [from, to] = edits.find(([pattern]) => pattern.test(rule)) ?? [/$/, ''];
  return rule.replace(from, to);
}

function remove({ printed: { chain }, rule }: OwnRule): string[] {
  return [`-D ${chain} ${rule}`];
}

/** By numbers only in our own chains: another's rule could have this one by now. */
function replace(own: OwnRule, text: string): string[] {
  const { chain } = own.printed;
  if (!isOurChain(chain)) return [...remove(own), `-I ${chain} ${text}`];
  return [`-D ${chain} ${own.number}`, `-I ${chain} ${own.number} ${text}`];
}
