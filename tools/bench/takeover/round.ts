import type { Dialogue } from '../shared/dialogue.ts';
import { LabError } from '../../lab/settings/error.ts';
import type { Ground, SetUpName } from './set-ups.ts';
import { type FaultName, faults } from './faults.ts';
import { median } from '../shared/statistics.ts';
import { loadavg } from 'node:os';

/** All addresses answer without a gap for so long before anything is broken. */
const steadyMs = 3000;

/** MetalLB's speakers may need a minute to find each other again. */
const limits = { steadyMs: 180_000, outageMs: 60_000 };

/** What one round found. Milliseconds from the fault until an address answers. */
export interface Outcome {
  /** The last of all addresses; null when one of them did not answer within a minute. */
  readonly allMs: number | null;
  /** The address in the middle. */
  readonly medianMs: number;
  /** Requests after an address' first answer that got none. */
  readonly lostLater: number;
  /** Of the machine, over the last minute. */
  readonly load: number;
}

/** How `services probe` sees the addresses. */
interface Seen {
  readonly unresponsive: number;
  /** By hardware address: how many addresses are there, by its own word. */
  readonly neighbours: Readonly<Record<string, number>>;
}

/** A client on the wire, and whose hardware addresses are whose. */
export interface Client {
  readonly probe: Dialogue;
  readonly hardwareToNode: ReadonlyMap<string, string>;
}

/**
 * Waits until one node has all addresses, and they answer. Answers which node that is.
 * @throws LabError when it does not become so.
 */
export async function waitForHolder({ probe, hardwareToNode }: Client): Promise<string> {
  const until = performance.now() + limits.steadyMs;
  for (;;) {
    const seen = (await probe.ask({ steadyMs, limitMs: limits.steadyMs })) as Seen;
    const [hardware = '', ...others] = Object.keys(seen.neighbours);
    const node = hardwareToNode.get(hardware);
    // Two nodes that do not hear each other may both say that they have an address.
    if (seen.unresponsive === 0 && others.length === 0 && node !== undefined) return node;
    if (performance.now() > until) throw new LabError(`no node has all addresses: ${JSON.stringify(seen)}`);
  }
}

/** Breaks the node that holds all addresses, measures, and mends it. */
export async function measureRound(
  ground: Ground,
  client: Client,
  { setUp, fault }: { readonly setUp: SetUpName; readonly fault: FaultName },
): Promise<Outcome> {
  const holder = await waitForHolder(client);
  const brokenMs = Date.now();
  await faults[fault].break(ground, holder, setUp);
  // An answer that is still under way from the node counts for nothing: only requests that are sent from now on do.
  const begunMs = (await client.probe.ask({ begin: true })) as number;
  const { outagesMs, lostLater } = (await client.probe.ask({ report: true, limitMs: limits.outageMs })) as {
    readonly outagesMs: readonly number[];
    readonly lostLater: number;
  };
  await faults[fault].mend(ground, holder, setUp);
  const sinceFaultMs = outagesMs.map((ms) => (ms < 0 ? Infinity : ms + begunMs - brokenMs));
  const allMs = Math.max(...sinceFaultMs);
  return {
    allMs: Number.isFinite(allMs) ? allMs : null,
    medianMs: median(sinceFaultMs),
    lostLater,
    load: loadavg()[0] ?? 0,
  };
}
