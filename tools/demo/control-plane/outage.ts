import type { Screen } from '../screen/screen.ts';
import { type Load, perSecond } from './load.ts';
import { type Slice, type Sum, addUp, sliceMs } from './slice.ts';

/** Whose connections a load has, in the order of its ports. */
export const clientNames = ['vipnat', "HAProxy as in kubeadm's guide"];

/** What is done to the control plane under load. */
interface Outage {
  /** Begins it. */
  readonly act: () => Promise<void>;
  /** Ends it. */
  readonly undo: () => Promise<void>;
  /** After how many slices it ends. */
  readonly undoAfter: number;
  /** How many slices from its beginning are shown. */
  readonly rows: number;
}

/**
 * Shows what becomes of new connections, a row for each slice of time from one before the beginning. Answers the sums, in the order of the
 * load's ports.
 */
export async function showOutage(
  screen: Screen,
  load: Load,
  { act, undo, undoAfter, rows: count }: Outage,
): Promise<Sum[]> {
  const first = await load.nextSlice();
  const undone = (async () => {
    await act();
    await load.waitFor(first + undoAfter);
    await undo();
  })();
  const clients = clientNames.map((name) => `   ${name.padEnd(29)}`);
  screen.show(`${perSecond}/s, new${clients.join('')}`.trimEnd());
  screen.show(`  second${clients.map(() => '       ok   failed     slowest').join('')}`);
  const rows: Slice[][] = [];
  for (let index = first - 1; index < first + count; index += 1) {
    const row = await load.readSlice(index);
    rows.push(row);
    const second = ((index - first) * sliceMs) / 1000;
    screen.show(`${second.toFixed(1).padStart(8)}${row.map(describeSlice).join('')}`);
  }
  await undone;
  const sums = clientNames.map((_, client) => addUp(rows.flatMap((row) => row[client] ?? [])));
  screen.show(`  in all${sums.map(describeSum).join('')}`);
  screen.show(
    ` failing${sums.map(({ failingMs }) => `${failingMs} ms`.padStart(18).padEnd(30)).join('')}`.trimEnd(),
  );
  return sums;
}

function describeSum({ sent, failed, slowestMs }: Sum): string {
  return format(sent - failed, failed, slowestMs);
}

function describeSlice({ sent, failedAt, slowestMs }: Slice): string {
  return format(sent - failedAt.length, failedAt.length, slowestMs);
}

function format(good: number, failed: number, slowestMs: number): string {
  return `${String(good).padStart(9)}${String(failed).padStart(9)}${`${slowestMs} ms`.padStart(12)}`;
}
