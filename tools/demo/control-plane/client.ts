/**
 * New connections at a steady rate until its standard input ends, run in a client's namespace:
 *   client.ts HOST PORT PER-SECOND START [HELLO]
 * From START, in milliseconds since 1970. A connection is there when an apiserver has answered: the TLS ClientHello, or without one
 * the question for its name, which only the stand-in of an apiserver understands. Prints a line of JSON for each slice of time, once
 * all of its connections have ended.
 */
import { connectAtRate } from '../../../test/support/network/seat-connects.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { sliceMs, connectLimitMs, type Slice } from './slice.ts';

const [host = '', port = '', perSecond = '', start = '', hello] = process.argv.slice(2);
const question = { isNamed: hello === undefined, ...(hello === undefined ? {} : { hello }) };
const target = {
  host,
  port: Number(port),
  perSecond: Number(perSecond),
  limitMs: connectLimitMs,
  ...question,
};

process.stdin.resume().on('close', () => process.exit());

for (let index = 0; ; index += 1) {
  await sleep(Math.max(0, Number(start) + index * sliceMs - performance.timeOrigin - performance.now()));
  void measure(index);
}

/** The end of the program ends it, never a signal. */
async function measure(index: number): Promise<void> {
  const task = { kind: 'connects', ...target, durationMs: sliceMs, isTimed: true } as const;
  const report = await connectAtRate(task, new AbortController().signal);
  const slice: Slice = {
    ...{ index, startedAt: report.startedAt, sent: report.sent },
    failedAt: report.failures.map(({ atMs }) => Math.round(report.startedAt + atMs)),
    slowestMs: Math.round(Math.max(0, ...(report.tookMs ?? []))),
  };
  process.stdout.write(`${JSON.stringify(slice)}\n`);
}
