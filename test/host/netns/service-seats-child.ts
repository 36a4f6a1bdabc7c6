/**
 * The seats of one node: takes what the API has, a line of JSON each time, and prints a line of JSON for all that is told of them.
 * For service-seats.test.ts.
 */
import type { SeatsInput } from '../../../balancer/seats/plan.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { createHostSeats } from '../../../balancer/seats/seats.ts';
import { type Clock, systemClock } from '../../../lib/clock.ts';
import { createInterface } from 'node:readline';

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
const [error, warn, info, debug] = [logAt('error'), logAt('warn'), logAt('info'), logAt('debug')];
const logger: Logger = { error, warn, info, debug };
const tellers = { onState: (state: object) => print({ state }), onPlanned: () => undefined };
const seats = createHostSeats({ node, runDir, clock, logger, ...tellers });
seats.start();
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line) as SeatsOrder;
  if ('input' in order) seats.update(order.input);
  else seats.setNeedsBalancer(order.needsBalancer);
}
await seats.stop();
