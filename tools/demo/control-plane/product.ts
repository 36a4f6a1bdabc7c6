import { fileURLToPath } from 'node:url';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Stage, DemoAgent } from './stage.ts';
import type { CommandResult } from '../../../test/support/network/namespaces.ts';

/** vipnat as built. */
export const program = fileURLToPath(new URL('../../../dist/vipnat.js', import.meta.url));

/** An agent needs two looks to converge, and a real apiserver is an endpoint 10 s after its start: longer means that it does not. */
const convergeLimitMs = 60_000;

/** Between two looks, which the agents need the processors for. */
const restMs = 200;

/** vipnat as people run it: its command line, as built, on the hosts of a stage. */
export class Product {
  /** Where the agents log to, one file per host. */
  readonly logFolder = mkdtempSync(join(tmpdir(), 'vipnat-demo-'));
  readonly #stage: Stage;
  readonly #agents: DemoAgent[] = [];

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  /** One command to its end. */
  run(host: string, words: readonly string[]): Promise<CommandResult> {
    return this.#stage.run(host, [process.execPath, program, ...words]);
  }

  /** Starts `vipnat run`, which then runs until `stopAgents`. */
  async startAgent(host: string, words: readonly string[]): Promise<void> {
    const command = [process.execPath, program, 'run', ...words];
    this.#agents.push(await this.#stage.startAgent(host, command, join(this.logFolder, `${host}.log`)));
  }

  /** Runs `vipnat check` until it is in sync and prints some words; answers its last result, also when time is over. */
  waitForSync(host: string, vip: string, words: string): Promise<CommandResult> {
    const isDone = ({ exitCode, stdout }: CommandResult) => exitCode === 0 && stdout.includes(words);
    return this.runUntil(host, ['check', '--vip', vip], isDone);
  }

  /** Runs a command again and again until its result is as wanted; answers the last one, also when time is over. */
  async runUntil(
    host: string,
    words: readonly string[],
    isDone: (result: CommandResult) => boolean,
  ): Promise<CommandResult> {
    const until = performance.now() + convergeLimitMs;
    for (;;) {
      const result = await this.run(host, words);
      if (isDone(result) || performance.now() > until) return result;
      await sleep(restMs);
    }
  }

  /** SIGTERM to every agent; answers for each whether it ended as it should. */
  stopAgents(): Promise<boolean[]> {
    return Promise.all(this.#agents.map((agent) => agent.stop()));
  }

  /** Removes the logs. */
  removeLogs(): void {
    rmSync(this.logFolder, { recursive: true, force: true });
  }
}
