import { type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Cluster } from '../network/cluster.ts';
import { type CommandResult } from '../network/namespaces.ts';

const program = fileURLToPath(new URL('../../dist/vipnat.js', import.meta.url));

/** An agent needs two looks to converge: longer means that it does not. */
const convergeLimitMs = 10_000;

/** vipnat as people run it: its command line, as built, on the hosts of a cluster. */
export class Product {
  /** Where the agents log to, one file per host. */
  readonly logFolder = mkdtempSync(join(tmpdir(), 'vipnat-demo-'));
  readonly #cluster: Cluster;
  readonly #agents: ChildProcess[] = [];

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** One command to its end. */
  run(host: string, words: readonly string[]): Promise<CommandResult> {
    return this.#cluster.namespaces.run(this.#cluster.namespaceOf(host), commandLine(host, words));
  }

  /** Starts `vipnat run`, which then runs until `stopAgents`. */
  startAgent(host: string, words: readonly string[]): void {
    const agent = this.#cluster.namespaces.start(
      this.#cluster.namespaceOf(host),
      commandLine(host, ['run', ...words]),
    );
    const log = createWriteStream(join(this.logFolder, `${host}.log`));
    agent.stdout?.pipe(log, { end: false });
    agent.stderr?.pipe(log, { end: false });
    this.#agents.push(agent);
  }

  /** Runs `vipnat check` until it is in sync in the given way; answers its last result, also when time is over. */
  async waitForSync(host: string, vip: string, way: string): Promise<CommandResult> {
    const until = performance.now() + convergeLimitMs;
    for (;;) {
      const result = await this.run(host, ['check', '--vip', vip]);
      const isDone = result.exitCode === 0 && result.stdout.includes(way);
      if (isDone || performance.now() > until) return result;
    }
  }

  /** SIGTERM to every agent; answers their exit statuses. */
  async stopAgents(): Promise<(number | null)[]> {
    return Promise.all(
      this.#agents.map(async (agent) => {
        // One that ended before would never say so again.
        if (agent.exitCode === null && agent.kill('SIGTERM')) await once(agent, 'exit');
        return agent.exitCode;
      }),
    );
  }

  /** Removes the logs. */
  removeLogs(): void {
    rmSync(this.logFolder, { recursive: true, force: true });
  }
}

/** With the host's own name: network namespaces share that of the machine. */
function commandLine(host: string, words: readonly string[]): string[] {
  const rename = 'hostname "$0" && exec "$@"';
  return ['unshare', '--uts', 'sh', '-c', rename, host, process.execPath, program, ...words];
}
