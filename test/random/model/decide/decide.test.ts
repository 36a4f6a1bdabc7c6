import { expect, jest, test } from '@jest/globals';
import { decide, type Decision, type VipFacts } from '../../../../agent/decide/decide.ts';
import { listFacts } from './facts.ts';
import { toOutcome } from './outcome.ts';
import { isBypass, type Row, table } from './table.ts';
import { printFigure } from '../../../support/jest/long.ts';

// A million decisions take seconds; on a busy machine, several times that.
jest.setTimeout(300_000);

test('whatever the facts, decide() is the first row of the table that holds, always the same, and never in the way of kube-proxy (I3, I11)', () => {
  const rowToCount = new Map<Row, number>(table.map((row) => [row, 0]));
  let count = 0;
  for (const facts of listFacts()) {
    count += 1;
    const row = table.find(({ holds }) => holds(facts)) ?? fail(facts, 'no row of the table');
    rowToCount.set(row, (rowToCount.get(row) ?? 0) + 1);
    const complaint = findComplaint(facts, row);
    if (complaint !== null) fail(facts, `${complaint}; the row is: ${row.when}`);
  }
  printFigure(`decide: ${count} combinations of facts agree with the ${table.length} rows of the table`);
  expect(count).toBeGreaterThan(1_000_000);
  expect([...rowToCount].filter(([, times]) => times === 0)).toEqual([]);
});

function findComplaint(facts: VipFacts, row: Row): string | null {
  const decision = decide(facts);
  const [found, wanted] = [toOutcome(decision), row.outcome(facts)];
  if (found.way !== wanted.way) return `goes ${found.way}, not ${wanted.way}`;
  if (found.backends !== wanted.backends) return `to ${found.backends}, not to ${wanted.backends}`;
  if (decision.isBypass !== isBypass(facts)) return `isBypass is ${String(decision.isBypass)}`;
  return findFault(facts, decision);
}

/** What is wrong with a decision, whatever the table says. */
function findFault(facts: VipFacts, decision: Decision): string | null {
  const { way, reason, clusterIp } = decision;
  if (reason === '') return 'has no reason';
  if (way === 'cluster-ip' && clusterIp === null) return 'has no ClusterIP to go to';
  // A jump into a chain that kube-proxy wants gone, or that is not there, would pin it.
  if (way === 'service-chain' && !mayPin(facts)) return 'pins a chain (I11)';
  const again = decide(facts);
  const isSame = again.reason === reason && toOutcome(again).backends === toOutcome(decision).backends;
  return isSame ? null : 'is another one the second time (I3)';
}

function mayPin({ unwanted, serviceChain }: VipFacts): boolean {
  return unwanted === null && serviceChain !== null;
}

function fail(facts: VipFacts, complaint: string): never {
  throw new Error(`${complaint}: ${JSON.stringify(facts)}`);
}
