import { type FoundWalk, quiet } from '../engine/walk.ts';

/** What the lab has found in vipnat. */
export const foundWalks: readonly FoundWalk[] = [
  {
    // Everybody was sent to the last one that kube-proxy knew, so kube-proxy never heard of the one that lives.
    name: 'an apiserver that comes back when the last one that is listed has died is found',
    walk: [
      { fault: 'apiserver', name: 'm1', condition: 'leaving' },
      { fault: 'apiserver', name: 'm2', condition: 'leaving' },
      quiet,
      { fault: 'apiserver', name: 'm3', condition: 'dead' },
      { fault: 'apiserver', name: 'm1', condition: 'well' },
      quiet,
    ],
  },
];

/** What only takes longer than it should, which a unit test shows sooner (loop-health): for the long version. */
export const slowWalks: readonly FoundWalk[] = [
  {
    name: 'the bypass is left half a second after kube-proxy agrees',
    walk: [
      { fault: 'apiserver', name: 'holder', condition: 'frozen' },
      { fault: 'apiserver', pauseMs: 300, name: 'm3', condition: 'dead' },
      quiet,
    ],
  },
];
