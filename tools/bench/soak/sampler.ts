import { type Sample, appendRecords } from './record.ts';
import type { Lab } from '../../lab/control-plane/lab.ts';
import { masters } from '../../../test/support/network/layout.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { LabError } from '../../lab/settings/error.ts';
import { measureAgent } from '../loss/agents.ts';

const intervalMs = 5000;
const metricsUrl = 'http://127.0.0.1:10268/metrics';

/** Looks at every agent of a lab every five seconds, and puts it on record. */
export class Sampler {
  phase: Sample['phase'] = 'before';
  readonly #lab: Lab;
  readonly #started = performance.now();
  #isStopped = false;

  constructor(lab: Lab) {
    this.#lab = lab;
  }

  /** Since the first sample. */
  get seconds(): number {
    return Math.round((performance.now() - this.#started) / 100) / 10;
  }

  /**
   * Goes on until stopped.
   * @throws LabError when an agent has ended.
   */
  async run(): Promise<void> {
    while (!this.#isStopped) {
      const { phase } = this;
      const samples = await Promise.all(masters.map(({ name }) => this.#sync(name, phase)));
      // What begins in one phase and ends in another is of neither.
      if (phase === this.phase) appendRecords(samples);
      await sleep(intervalMs - ((performance.now() - this.#started) % intervalMs));
    }
  }

  /** Lets the last look be the last. */
  stop(): void {
    this.#isStopped = true;
  }

  async #sync(agent: string, phase: Sample['phase']): Promise<Sample> {
    const service = this.#lab.service(agent, 'vipnat');
    if (!(await service.isRunning())) {
      throw new LabError(`${service.describe()} has ended. The end of its log:\n${service.readTail()}`);
    }
    const machine = this.#lab.machine(agent);
    const { stdout } = await machine.run(['curl', '--silent', '--max-time', '4', metricsUrl]);
    const writes = [...stdout.matchAll(/^vipnat_writes_total\S* (\d+)$/gm)];
    const figures = await measureAgent(machine, service);
    return {
      ...{ kind: 'sample', agent, atSeconds: this.seconds, phase },
      ...figures,
      writes: writes.reduce((sum, [, count]) => sum + Number(count), 0),
    };
  }
}
