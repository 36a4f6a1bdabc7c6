import { describe, expect, jest, test } from '@jest/globals';
import { explore, Violation } from '../engine/explore.ts';
import { type Spoil } from './live-process.ts';
import { createLiveSystem } from './system.ts';
import { isLong } from '../../../support/jest/extent.ts';
import { printFigure } from '../engine/print-figure.ts';

// Minutes on a busy machine.
jest.setTimeout(3_600_000);

const proxies = [
  { mode: 'iptables', set: 'three' },
  { mode: 'nftables', set: 'three' },
  { mode: 'none', set: 'none' },
] as const;

/** At length two actions in a row can strike anywhere; in short, one. */
const extent = isLong ? { depth: 2, states: 5000 } : { depth: 1, states: 200 };

test.each(proxies)(
  'whatever strikes the running loop between any two of its reads and writes, it ends as it should: $mode (I1, I5 to I7, I9, I11)',
  async (proxy) => {
    const system = await createLiveSystem(proxy, (ports) => ports);
    const { states, transitions, depth } = await explore(system, extent.depth);
    printFigure(
      `loop: ${states} states, ${transitions} transitions, ${depth} actions deep, from kube-proxy in mode ${proxy.mode}`,
    );
    expect(states).toBeGreaterThan(extent.states);
  },
);

const spoils: Readonly<Record<string, { readonly spoil: Spoil; readonly complaint: string }>> = {
  'hears no trigger': {
    complaint: 'I11',
    spoil: (ports) => ({
      ...ports,
      kernel: {
        ...ports.kernel,
        watch: () => ({ ready: Promise.resolve(), stop: () => Promise.resolve() }),
      },
    }),
  },
  'writes everything twice': {
    complaint: '(I1)',
    spoil: (ports) => ({
      ...ports,
      kernel: {
        ...ports.kernel,
        apply: async (transaction) => {
          await ports.kernel.apply(transaction);
          await ports.kernel.apply(transaction);
        },
      },
    }),
  },
  'goes by its first reading for ever': {
    complaint: '(I',
    spoil: (ports) => {
      let first: ReturnType<typeof ports.kernel.read> | null = null;
      return {
        ...ports,
        kernel: { ...ports.kernel, read: (query) => (first ??= ports.kernel.read(query)) },
      };
    },
  },
};

describe('the model notices a loop that', () => {
  test.each(Object.entries(spoils))('%s', async (name, { spoil, complaint }) => {
    const error = await explore(await createLiveSystem(proxies[0], spoil), 2).then(
      () => null,
      (reason: unknown) => reason,
    );
    expect(String(error)).toContain(complaint);
    if (error instanceof Violation) printFigure(`a loop that ${name}: ${error.message}`);
  });
});
