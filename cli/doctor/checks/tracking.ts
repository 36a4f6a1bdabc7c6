import { findDropRules } from '../../findings/drop-rules.ts';
import { findUntrackedPackets, type UntrackedPackets } from '../facts/untracked-packets.ts';
import { quoteText } from '../../../config/setting.ts';
import { type Check } from '../facts/check.ts';
import { type Finding, given, lookAt } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** Whether connection tracking sees what is balanced, and nobody drops it where vipnat has no rule. */
export const trackingChecks: readonly Check[] = [
  {
    code: 'packets-not-tracked',
    levels: ['warn', 'fail'],
    meaning:
      'A foreign rule keeps packets of balanced connections from being tracked (`NOTRACK`, `notrack`). If it may, and does not surely, it is a warning.',
    find: findUntracked,
  },
  {
    code: 'dropped-by-rule',
    levels: ['fail'],
    meaning:
      "A foreign rule in iptables' table mangle drops all connections to the VIP or to an apiserver. No rule of vipnat can overrule it.",
    find: findDrops,
  },
];

function findUntracked({ assessment, earlyRules }: HostFacts): ReturnType<Check['find']> {
  return given([assessment, earlyRules], (assessed, rules) =>
    lookAt(rules, { notHere: 'no rule comes before connection tracking' }, (one) =>
      findUntrackedPackets([one], assessed).map(describe),
    ),
  );
}

function describe({ place, rule, packets, isSure, exemptions }: UntrackedPackets): Finding {
  const [first = '', ...more] = packets;
  const which = more.length === 0 ? first : `${first}, and ${more.length} more`;
  return {
    level: isSure ? 'fail' : 'warn',
    title: `${place} ${isSure ? 'keeps' : 'may keep'} ${which} from being tracked: ${quoteText(rule)}`,
    why: 'The kernel translates only connections that it tracks. Without that, connections to the VIP stay at the VIP holder, or get no answer.',
    remedy: [
      '# better leave these packets out where that rule is made: a reload of its owner removes these lines',
      ...exemptions,
    ],
  };
}

function findDrops({ assessment }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], (assessed) =>
    lookAt(findDropRules(assessed), { notHere: 'no such rule is here' }, ({ place, rule, deletion }) => [
      {
        level: 'fail',
        title: `${place} drops balanced connections: ${quoteText(rule)}`,
        why: 'Connections to the VIP or to an apiserver hang. Remove the rule from the configuration of its owner too: a reload writes it again.',
        remedy: [deletion],
      },
    ]),
  );
}
