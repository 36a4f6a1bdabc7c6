/**
 * The seats of one node: takes what the API has, a line of JSON each time, and prints a line of JSON for all that is told of them.
 * For service-seats.test.ts.
 */
import type { SeatsInput } from '../../../balancer/seats/plan.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { createHostSeats } from '../../../balancer/seats/seats.ts';
import { type Clock, systemClock } from '../../../lib/clock.ts';
import { createInterface } from 'node:readline';

/** What a line can be. */
export type SeatsOrder = { readonly input: SeatsInput } | { readonly needsBalancer: boolean };

const [, , node = '', runDir = '', speed = '1'] = process.argv;
/** As many minutes of it fit in one. */
const clock: Clock = {
  ...systemClock,
  now: () => systemClock.now() * Number(speed),
  schedule: (ms, act) => systemClock.schedule(ms / Number(speed), act),
};
const print = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
const logAt =
  (level: string): Logger['info'] =>
  (message, { details } = {}) => {
    print({ level, message, details });
  };
const logger: Logger = {
  error: logAt('error'),
  warn: logAt('warn'),
  info: logAt('info'),
  debug: logAt('debug'),
};
const seats = createHostSeats({
  node,
  runDir,
  clock,
  logger,
  onState: (state) => print({ state }),
  onPlanned: () => undefined,
});
seats.start();
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line) as SeatsOrder;
  if ('input' in order) seats.update(order.input);
  else seats.setNeedsBalancer(order.needsBalancer);
}
await seats.stop();
