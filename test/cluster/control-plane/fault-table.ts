import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { type Fault, assignRoles } from '../../support/lab/faults.ts';
import { test, expect, afterAll } from '@jest/globals';
import { waitForBalance, waitForHolder } from '../../../tools/lab/control-plane/ready.ts';
import { measureOutage } from './outage.ts';
import { lostMs } from '../../support/network/witness.ts';
import { formatDuration, formatTable } from './table.ts';
import { nameLab } from '../../support/lab/test-lab.ts';

/** To wait for an agent on a busy virtual machine, before the fault and after it, takes minutes. */
const faultLimitMs = 900_000;

/** Tests for faults in a lab, one after another; the table with what a client sees is printed after the last one. */
export function testFaults(lab: () => Lab, faults: readonly Fault[], perSecond = 500): void {
  const rows: (string | number)[][] = [['fault', 'connects', 'failed', 'for', 'watch', 'how they failed']];

  test.each(faults)(
    '$name',
    async (fault) => {
      if (fault.isRemedy !== true) await waitForBalance(lab());
      const roles = await assignRoles(lab());
      const { durationMs, watched, stricken, maxFailed } = fault;
      const outage = await measureOutage(
        lab(),
        {
          ...{ durationMs, perSecond, needsAnswer: fault.needsAnswer ?? false },
          ...(watched === undefined ? {} : { watched: roles[watched] }),
          ...(stricken === undefined ? {} : { stricken: roles[stricken] }),
          // Where none or few may fail, one that is late is none of them; where the time counts that they fail, it is.
          ...(maxFailed === undefined ? {} : { limitMs: lostMs }),
        },
        () => fault.run(lab(), roles),
      );
      const { sent, failed, windowMs, watchGapMs, errors } = outage;
      rows.push([fault.name, sent, failed, formatDuration(windowMs), formatDuration(watchGapMs), errors]);
      expect(failed).toBeLessThanOrEqual(maxFailed ?? sent);
      expect(windowMs).toBeLessThanOrEqual(fault.maxWindowMs ?? durationMs);
      // Every fault is over by then, for new connections.
      expect(outage.quietMs).toBeGreaterThan(2000);
    },
    faultLimitMs,
  );

  test(
    'after all of it, one master holds the VIP, and every agent balances over three apiservers',
    async () => {
      await waitForHolder(lab());
      await waitForBalance(lab());
    },
    faultLimitMs,
  );

  afterAll(() => {
    const title = `What a client outside sees, at ${perSecond} new connections per second and through one watch`;
    process.stderr.write(formatTable(`${title} · ${nameLab(lab())}`, rows));
  });
}
