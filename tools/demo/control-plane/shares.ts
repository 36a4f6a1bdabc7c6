import type { Stage } from './stage.ts';
import type { Screen } from '../screen/screen.ts';
import { masters } from '../../../test/support/network/layout.ts';
import { seatNames } from '../../../test/support/network/cluster.ts';
import type { RequestReport } from '../../../test/support/network/seat-tasks.ts';

/** Of 300 fair choices each, one of the fifteen shares is beyond these once in 4,000 runs. */
const [smallestShare, largestShare] = [0.22, 0.45];

/** Sends new connections from every place, and shows which share of them each apiserver answered. */
export async function showShares(
  stage: Stage,
  screen: Screen,
  target: { host: string; port: number; count: number },
): Promise<void> {
  const names = masters.map(({ name }) => name);
  const head = names.map((name) => name.padStart(7)).join('');
  screen.show(`${''.padEnd(20)}${head}   failed`);
  for (const seat of seatNames) {
    const report = await stage.seat(seat).request(target.host, target.port, target.count);
    const shares = names.map((name) => (report.apiservers[name] ?? 0) / target.count);
    const failed = countFailures(report);
    const columns = shares.map((share) => `${(100 * share).toFixed(0)} %`.padStart(7)).join('');
    screen.show(`${seat.padEnd(20)}${columns}${String(failed).padStart(9)}`);
    screen.expect(failed === 0, `no request from the ${seat} fails: ${JSON.stringify(report.errors)}`);
    screen.expect(
      shares.every((share) => share >= smallestShare && share <= largestShare),
      `from the ${seat}, each apiserver gets ${100 * smallestShare} to ${100 * largestShare} %`,
    );
  }
}

function countFailures({ errors }: RequestReport): number {
  return Object.values(errors).reduce((sum, count) => sum + count, 0);
}
