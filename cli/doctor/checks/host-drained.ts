import { formatAge } from '../../../lib/text/age.ts';
import { type Check } from '../facts/check.ts';
import { type Drain } from '../../../lib/files/drain-store.ts';
import { type Finding, given, lookAtHost } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** Whether a drain of this host was forgotten, or does not work. */
export const hostDrainedChecks: readonly Check[] = [
  {
    code: 'host-drained',
    levels: ['warn'],
    meaning:
      'This host has been drained (`vipnat drain`) for more than a day. Or no other host took its VIP.',
    find: findDrained,
  },
];

/** Maintenance takes hours. */
const forgottenMs = 86_400_000;

function findDrained({ drain, now }: HostFacts): ReturnType<Check['find']> {
  return given([drain], (drained) =>
    lookAtHost(() => {
      if (drained === null) return [];
      const ageMs = now.getTime() - drained.since.getTime();
      return [
        ...(drained.vipStaysSince === null ? [] : [vipStays]),
        ...(ageMs <= forgottenMs ? [] : [toForgotten(ageMs, drained)]),
      ];
    }),
  );
}

const vipStays: Finding = {
  level: 'warn',
  title: 'this host is drained, but no other host took its VIP',
  why: 'If this host goes down, no host has the VIP.',
  remedy: [
    '# on each other master, vipnat doctor says why keepalived did not take the VIP. Then here:',
    'vipnat undrain',
    'vipnat drain',
  ],
};

function toForgotten(ageMs: number, { vipStaysSince }: Drain): Finding {
  const vip = vipStaysSince === null ? ', and the VIP stays on other masters' : '';
  return {
    level: 'warn',
    title: `this host has been drained for ${formatAge(ageMs)}`,
    why: `Its apiserver gets no new connections through the VIP${vip}.`,
    remedy: ['# if the maintenance is over:', 'vipnat undrain'],
  };
}
