import type { FoundWalk } from '../../support/chaos/engine/walk.ts';

/** What the stand-in has found in vipnat, each a test of its own. */
export const found: readonly FoundWalk[] = [
  {
    name: 'an agent that ran out of descriptors looks again when it has some',
    walk: [
      { fault: 'no descriptors', host: 'm1' },
      { fault: 'flush table', pauseMs: 300, host: 'm1', table: 'nat' },
    ],
  },
  {
    name: 'while the API is lost, a fresh check holds its word against what the agent holds it against',
    walk: [
      { fault: 'kube-proxy syncs', host: 'm1', list: ['m3'] },
      { fault: 'quiet' },
      { fault: 'API answers', manner: 'hanging' },
      { fault: 'quiet' },
      { fault: 'API answers', pauseMs: 300, manner: 'hanging' },
      { fault: 'firewall restored', host: 'm1', family: 'ipv4', table: 'nat' },
    ],
  },
];
