import { afterAll, describe, expect, test } from '@jest/globals';
import { waitForBalance, waitForHolder } from '../lab/ready.ts';
import { assignRoles, faults } from './faults.ts';
import { measureOutage } from './outage.ts';
import { testSevenCases } from './seven-cases.ts';
import { formatDuration, formatTable } from './table.ts';
import { nameLab, useLab } from './with-lab.ts';

describe('kube-proxy in iptables mode', () => {
  const lab = useLab({ proxyMode: 'iptables', iptables: 'nft' });
  testSevenCases(lab);

  const rows: (string | number)[][] = [['fault', 'connects', 'failed', 'for', 'watch', 'errors']];

  test.each(faults)(
    '$name',
    async (fault) => {
      const roles = await assignRoles(lab());
      const { durationMs, watched } = fault;
      const measurement = watched === undefined ? { durationMs } : { durationMs, watched: roles[watched] };
      const outage = await measureOutage(lab(), measurement, () => fault.run(lab(), roles));
      rows.push([
        fault.name,
        outage.sent,
        outage.failed,
        formatDuration(outage.windowMs),
        formatDuration(outage.watchGapMs),
        outage.errors + ' ' + outage.watchedAt.join('>'),
      ]);
      if (fault.isSeamless) expect(outage.failed).toBe(0);
      // Every fault is over by then, for new connections.
      expect(outage.quietMs).toBeGreaterThan(2000);
    },
    180_000,
  );

  test('after all of it, one master holds the VIP, balanced over three apiservers', async () => {
    await waitForHolder(lab());
    await waitForBalance(lab());
  }, 130_000);

  afterAll(() => {
    process.stderr.write(formatTable(`What a client outside sees · ${nameLab(lab())}`, rows));
  });
});
