import { type Endpoint } from '../../lib/address/endpoint.ts';
import { toolName } from '../../lib/kernel/tools/tool-name.ts';
import { mayMatch, surelyMatches } from '../../lib/netfilter/iptables/may-match.ts';
import { listPackets, type Packet } from '../../lib/netfilter/iptables/packets.ts';
import { parseRule, type Rule, splitRule } from '../../lib/netfilter/iptables/rule.ts';
import { type Ruleset } from '../../lib/netfilter/iptables/ruleset.ts';
import { type Balance } from '../../lib/netfilter/rules/balance.ts';
import { quoteWords } from '../../lib/text/shell-words.ts';
import { isBalanced } from '../../config/way.ts';
import type { HostLook, VipDecision } from '../../agent/main.ts';

/** A rule of others that drops connections, in a chain where vipnat has no rule. */
export interface DropRule {
  /** For people: `mangle FORWARD of iptables-nft`. */
  readonly place: string;
  readonly rule: string;
  /** The command that deletes it. */
  readonly deletion: string;
}

/** One sentence, without its full stop. */
export function describeDropRule({ place, rule }: DropRule): string {
  return `${place} drops balanced connections: ${rule}`;
}

/** The chains of table mangle that balanced packets pass, whatever the tables behind decide. */
const chains = ['PREROUTING', 'FORWARD', 'POSTROUTING'] as const;

/**
 * Rules right in the kernel's chains of table mangle that drop all connections to a VIP or to an apiserver, or its replies. A rule that
 * drops those of some clients is meant, and so is one behind an ACCEPT or RETURN that some may meet. Rules in other chains are not looked
 * for. Pure.
 */
export function findDropRules({
  decisions,
  observation: { rulesets },
}: Pick<HostLook, 'decisions'> & {
  readonly observation: Pick<HostLook['observation'], 'rulesets'>;
}): DropRule[] {
  return rulesets.flatMap((ruleset) => {
    const balances = decisions
      .filter((one) => isBalanced(one) && one.vip.family === ruleset.family)
      .map(toBalance);
    return chains.flatMap((chain) => findIn(ruleset, chain, listPackets(chain, balances)));
  });
}

function toBalance({ vip, backends }: VipDecision): Balance {
  const apiservers: readonly Endpoint[] = backends;
  return { vip, apiservers, masquerade: 'own', route: { kind: 'translate', backends } };
}

function findIn({ family, dialect, tables }: Ruleset, chain: string, packets: readonly Packet[]): DropRule[] {
  const tool = toolName(family, dialect);
  const rules = (tables.get('mangle')?.get(chain) ?? []).map(parseRule);
  return rules
    .filter(
      (rule, index) =>
        rule.target === 'DROP' &&
        packets.some((packet) => surelyMatches(rule, packet) && !mayPass(rules.slice(0, index), packet)),
    )
    .map(({ text }) => ({
      place: `mangle ${chain} of ${tool}`,
      rule: text,
      deletion: quoteWords([tool, '-t', 'mangle', '-D', chain, ...splitRule(text)]),
    }));
}

/** Whether one of these rules may let a packet pass by all that stand behind. */
function mayPass(rules: readonly Rule[], packet: Packet): boolean {
  return rules.some((rule) => ['ACCEPT', 'RETURN'].includes(rule.target ?? '') && mayMatch(rule, packet));
}
