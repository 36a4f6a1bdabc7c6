import { quiet, type Walk } from '../engine/walk.ts';

/** A walk that failed once, cut down to what it takes. */
export interface FoundWalk {
  /** What went wrong, as a sentence about how it is now. */
  readonly name: string;
  readonly walk: Walk;
}

/** What the lab has found in vipnat. */
export const foundWalks: readonly FoundWalk[] = [
  {
    // Everybody was sent to the last one that kube-proxy knew, so kube-proxy never heard of the one that lives.
    name: 'an apiserver that comes back when the last one that is listed has died is found',
    walk: [
      { fault: 'apiserver stopped', on: 'm1' },
      { fault: 'apiserver stopped', on: 'm2' },
      quiet,
      { fault: 'apiserver killed', on: 'm3' },
      { fault: 'apiserver back', on: 'm1' },
      quiet,
    ],
  },
];

/** What only takes longer than it should, which a unit test shows sooner (loop-health): for the long version. */
export const slowWalks: readonly FoundWalk[] = [
  {
    name: 'the bypass is left half a second after kube-proxy agrees',
    walk: [
      { fault: 'apiserver frozen', on: 'holder' },
      { fault: 'apiserver killed', pauseMs: 300, on: 'm3' },
      quiet,
    ],
  },
];
