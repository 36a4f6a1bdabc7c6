/**
 * Whether the host of an apiserver is drained: `vipnat drain` there refuses connections from the drain ports.
 *
 * Goal: an operator takes a master out of use for all agents, without credentials and without a port more.
 * Tension: a dead apiserver refuses too, a firewall may let such source ports not pass, and a port may be taken here.
 * Compromise: only a refusal counts, and only beside a connection from an ordinary port that was accepted after it.
 */
import { drainPortCount, drainPorts } from '../../lib/address/drain-ports.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { type ConnectOutcome, connectOnce } from '../../lib/probe/connect.ts';
import { type DrainOutcome } from './apiserver.ts';
import { drainCheckMs } from './probe-budget.ts';

/** Another program may have a port, or this host's connection from it to the same apiserver was closed within the last minute. */
const maxTries = 3;

/** Far from the port before it: that one's neighbours are the next checks'. */
const strideToNext = 13;

/** Makes drain checks. */
export class DrainChecks {
  readonly #clock: Clock;
  readonly #onDenied: () => void;
  #isDenied = false;

  /** `onDenied` is told once when this process may not use ports below 1024. */
  constructor(clock: Clock, onDenied: () => void) {
    this.#clock = clock;
    this.#onDenied = onDenied;
  }

  /** As `checkDrain` of Apiserver. */
  async check(endpoint: Endpoint, limitMs: number): Promise<DrainOutcome> {
    const { kind } = await this.#connectFromDrainPort(endpoint, limitMs);
    if (kind === 'open') return 'admitting';
    if (kind !== 'refused') return 'unknown';
    const ordinary = await connectOnce(this.#clock, endpoint, { limitMs, end: 'close' });
    return ordinary.kind === 'open' ? 'drained' : 'unknown';
  }

  async #connectFromDrainPort(endpoint: Endpoint, limitMs: number): Promise<ConnectOutcome> {
    const clock = this.#clock;
    // The time of day: also the next process takes other ports than this one did within the last minute.
    const turn = Math.floor(clock.date().getTime() / drainCheckMs);
    let outcome: ConnectOutcome = { kind: 'untried', code: 'EADDRINUSE' };
    for (let tries = 0; tries < maxTries && isTaken(outcome); tries += 1) {
      const localPort = drainPorts.first + ((turn + tries * strideToNext) % drainPortCount);
      outcome = await connectOnce(clock, endpoint, { limitMs, end: 'close', localPort });
    }
    if (outcome.kind === 'untried' && outcome.code === 'EACCES') this.#noteDenied();
    return outcome;
  }

  #noteDenied(): void {
    if (this.#isDenied) return;
    this.#isDenied = true;
    this.#onDenied();
  }
}

function isTaken(outcome: ConnectOutcome): boolean {
  return outcome.kind === 'untried' && ['EADDRINUSE', 'EADDRNOTAVAIL'].includes(outcome.code);
}
