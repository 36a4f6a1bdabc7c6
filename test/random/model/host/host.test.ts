import { describe, expect, jest, test } from '@jest/globals';
import { explore, Violation } from '../engine/explore.ts';
import { mutants } from './mutants.ts';
import { product } from './product.ts';
import { createHost } from './system.ts';
import { byExtent, isFull, isLong } from '../../../support/jest/extent.ts';
import { chooseOneIn } from '../../../support/random/runs.ts';
import { printFigure } from '../engine/print-figure.ts';

// Minutes on a busy machine.
jest.setTimeout(3_600_000);

const proxies = [
  { mode: 'iptables', set: 'three' },
  { mode: 'ipvs', set: 'three' },
  { mode: 'nftables', set: 'three' },
  { mode: 'none', set: 'none' },
] as const;

/** From each kube-proxy two actions in a row can strike anywhere, in the gate one; at length, three from the ordinary one. */
const searches = [
  {
    start: 'any kube-proxy',
    from: proxies.flatMap((proxy) => [true, false].map((isAnswering) => ({ ...proxy, isAnswering }))),
    maxDepth: isFull ? 2 : 1,
    atLeast: byExtent({ gate: 1000, full: 25_000, long: 25_000 }),
  },
  ...(isLong
    ? [
        {
          start: 'kube-proxy in iptables mode',
          from: [{ ...proxies[0], isAnswering: true }],
          maxDepth: 3,
          atLeast: 75_000,
        },
      ]
    : []),
];

test.each(searches)(
  'in every state that a small world with $start can come to by $maxDepth actions, the invariants hold (I1, I3 to I12)',
  async ({ from, maxDepth, atLeast }) => {
    const before = listOpened();
    const { system, kernels, looks, invariants } = await createHost(product, from);
    const { states, transitions, depth } = await explore(system, maxDepth);
    printFigure(
      `host: ${states} states, ${transitions} transitions, ${depth} actions deep; ${kernels.count} kernels, ${looks.count} looks; at most ${invariants.mostWrites} writes to rest`,
    );
    expect(states).toBeGreaterThan(atLeast);
    // I2: nothing of the product has opened anything of its own.
    expect(listOpened().length).toBeLessThanOrEqual(before.length);
  },
);

/** What this process has open but files and timers; Jest and the tests before leave some of it. */
function listOpened(): string[] {
  return process.getActiveResourcesInfo().filter((name) => /Socket|Process|TCP|UDP/.test(name));
}

describe('the model notices a vipnat that', () => {
  test.each(chooseOneIn(3, mutants))('$name', async ({ name, product: broken, complaint }) => {
    const { system } = await createHost(broken, [{ ...proxies[0], isAnswering: true }]);
    const error = await explore(system, 2).then(
      () => null,
      (reason: unknown) => reason,
    );
    expect(String(error)).toContain(complaint);
    if (error instanceof Violation) printFigure(`mutant "${name}": ${error.message}`);
  });
});
