import type { Check, Finding, HostFacts } from '../facts.ts';
import { toolChecks, forwardingChecks, trackingChecks } from './host.ts';
import { virtualIpChecks } from './vip.ts';
import { localRouteChecks, ruleChecks, foreignChecks } from './rules.ts';
import { keepalivedChecks, trackFileChecks, hostDrainedChecks } from './keepalived.ts';
import { apiserverChecks } from './apiservers.ts';
import { kubeconfigChecks, kubeProxyChecks } from './kube-proxy.ts';
import { serviceChecks } from './services.ts';

/** Checks that a person thinks of together. */
export interface Topic {
  readonly name: string;
  readonly checks: readonly Check[];
}

/** All checks, in the order in which they are reported. */
export const topics: readonly Topic[] = [
  { name: 'rights, tools, kernel', checks: toolChecks },
  { name: 'forwarding', checks: [...forwardingChecks, ...trackingChecks] },
  {
    name: 'virtual IP, keepalived',
    checks: [...virtualIpChecks, ...localRouteChecks, ...keepalivedChecks, ...trackFileChecks],
  },
  { name: 'apiservers', checks: [...apiserverChecks, ...hostDrainedChecks, ...kubeconfigChecks] },
  { name: 'kube-proxy', checks: kubeProxyChecks },
  { name: "vipnat's rules, foreign rules", checks: [...ruleChecks, ...foreignChecks] },
  { name: 'Services', checks: serviceChecks },
];

/** The topics that are looked at on a host that has Services, and no virtual IP of the API. */
const withoutVips: readonly string[] = ['rights, tools, kernel', 'kube-proxy', 'Services'];

/** All codes, in that order. */
export const findingCodes: readonly string[] = topics.flatMap(({ checks }) => checks.map(({ code }) => code));

/** What became of one check. */
export type Outcome =
  | { readonly code: string; readonly level: 'ok' }
  | ({ readonly code: string } & Finding)
  | {
      readonly code: string;
      readonly level: 'skipped';
      /** One phrase. */
      readonly reason: string;
      /** Only where what it is about is not there yet, as before an installation. */
      readonly pending?: true;
    };

/** What became of a topic's checks. */
export interface TopicOutcome {
  readonly name: string;
  readonly outcomes: readonly Outcome[];
}

/** Makes every check; without a virtual IP of the API those that are about none. Pure. */
export function diagnose(facts: HostFacts): TopicOutcome[] {
  const isChecked = ({ name }: Topic) => facts.config.vips.length > 0 || withoutVips.includes(name);
  return topics.filter(isChecked).map(({ name, checks }) => ({
    name,
    outcomes: checks.flatMap((check) => make(check, facts)),
  }));
}

function make({ code, find }: Check, facts: HostFacts): Outcome[] {
  const verdict = find(facts);
  if ('unknown' in verdict) return [{ code, level: 'skipped', reason: verdict.unknown }];
  if ('notHere' in verdict) return [{ code, level: 'ok' }];
  const { findings, gaps } = verdict;
  const results: Outcome[] = [
    ...findings.map((finding) => ({ code, ...finding })),
    ...gaps.map((reason): Outcome => ({ code, level: 'skipped', reason })),
  ];
  return results.length === 0 ? [{ code, level: 'ok' }] : results;
}
