import { readFileSync } from 'node:fs';

const intervalMs = 100;

/** How long the process that the tests run in got no turn, measured by a timer that comes late then. */
export class Standstill {
  #last = performance.now();
  #longestMs = 0;
  #longestOfTestMs = 0;
  readonly #timer = setInterval(() => {
    this.#look();
  }, intervalMs).unref();

  beginTest(): void {
    this.#look();
    this.#longestOfTestMs = 0;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Since the test began, and since the file did; until now, should it still last. */
  measure(): { ofTestMs: number; ofFileMs: number } {
    this.#look();
    return { ofTestMs: Math.round(this.#longestOfTestMs), ofFileMs: Math.round(this.#longestMs) };
  }

  #look(): void {
    const now = performance.now();
    const lateMs = now - this.#last - intervalMs;
    this.#last = now;
    this.#longestMs = Math.max(this.#longestMs, lateMs);
    this.#longestOfTestMs = Math.max(this.#longestOfTestMs, lateMs);
  }
}

/** What tells a busy machine from a fault: how much else there was to do, and how long these tests got no turn. */
export function describeMachine(standstill: Standstill): string {
  const { ofTestMs, ofFileMs } = standstill.measure();
  const pressures = ['cpu', 'memory', 'io'].map((kind) => `${kind} ${read(`/proc/pressure/${kind}`)}`);
  const available = /MemAvailable:.*/.exec(read('/proc/meminfo'))?.[0] ?? '';
  return [
    `at ${new Date().toISOString()}`,
    `longest standstill of these tests: ${ofTestMs} ms in this test, ${ofFileMs} ms since the file began`,
    `load ${read('/proc/loadavg')}`,
    ...pressures,
    available,
    '',
  ].join('\n');
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    return String(error);
  }
}
