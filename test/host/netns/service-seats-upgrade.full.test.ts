import { expect, jest, test } from '@jest/globals';
import { limitMs, sleep } from '../../support/host/vipnat.ts';
import { anchors, give, useSeatNetwork } from './seat-network.ts';

jest.setTimeout(2 * limitMs);

/** Longer than a takeover, and than the pause before a seat would move back. */
const watchedMs = 8000;

const [anchor, address] = [anchors[0], '10.77.0.60'] as const;

const network = useSeatNetwork();

test.each([
  ['stopKeepalived', 'in order'],
  ['killKeepalived', 'without a word'],
] as const)(
  'a keepalived that is replaced (%s, %s) costs a used seat one move, and none back',
  async (end, how) => {
    await network.start(give(address));
    await network.waitForOneHolder(anchor, address);
    const holder = await network.findHolder(address);
    const startedAt = performance.now();
    await holder[end]();
    await holder.startKeepalived();
    const seen: string[] = [];
    let withoutMs = 0;
    let syncedAt = performance.now();
    while (performance.now() - startedAt < watchedMs) {
      const holders = (await network.listHolders(address)).join('+');
      const now = performance.now();
      if (holders === '') withoutMs += now - syncedAt;
      syncedAt = now;
      if (seen.at(-1) !== holders) seen.push(holders);
      await sleep(20);
    }
    process.stderr.write(
      `service-seats-upgrade.test.ts: ${how}: ${seen.map((names) => names || 'nobody').join(', ')}; nobody for ${Math.round(withoutMs)} ms\n`,
    );
    await network.waitForOneHolder(anchor, address);
    const settled = seen.filter((names) => names !== '' && !names.includes('+'));
    const moves = settled.filter((name, at) => at === 0 || name !== settled[at - 1]);
    expect(moves.filter((name) => name !== holder.name)).toHaveLength(1);
    expect(moves.at(-1)).not.toBe(holder.name);
  },
);
