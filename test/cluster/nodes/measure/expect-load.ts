import { expect } from '@jest/globals';
import { tell } from '../../../support/lab/test-lab.ts';
import { lostMs } from '../../../support/network/witness.ts';
import { type LoadReport } from './load.ts';

/** Tells what clients saw, and fails unless that is nothing. */
export function expectNothingNoticed(what: string, report: LoadReport): void {
  expectNoFailure(what, report);
  expect(report.watches.filter(({ end }) => end !== null)).toEqual([]);
}

/**
 * Tells what clients saw while an apiserver ended in order, and fails if that is more than it has to be: no connection fails,
 * its own watches end by its own word, and all others go on.
 */
export function expectGoaway(what: string, apiserver: string, report: LoadReport): void {
  expectNoFailure(what, report);
  const there = report.watches.filter((watch) => watch.apiserver === apiserver);
  expect(there.length).toBeGreaterThan(0);
  expect(there.filter(({ end }) => end !== 'goaway')).toEqual([]);
  expect(report.watches.filter((watch) => watch.apiserver !== apiserver && watch.end !== null)).toEqual([]);
}

function expectNoFailure(what: string, { sent, failed, watches, silenceMs }: LoadReport): void {
  const ended = watches.filter(({ end }) => end !== null).length;
  tell(
    `${what}: ${failed.length} of ${sent} connections failed, ${ended} of ${watches.length} watches ended, longest silence ${silenceMs.toFixed(0)} ms`,
  );
  expect(failed).toEqual([]);
  expect(sent).toBeGreaterThan(0);
  // An answer that is late has waited for the processors; that of a connection that is lost never comes.
  expect(silenceMs).toBeLessThan(lostMs);
}
