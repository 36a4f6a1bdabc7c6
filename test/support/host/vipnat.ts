import { waitUntil } from '../jest/waiting.ts';
import { fileURLToPath } from 'node:url';
import type { Cluster } from '../network/cluster.ts';
import type { CommandResult } from '../network/namespaces.ts';
import type { ChildProcess } from 'node:child_process';

export { sleep, waitUntil } from '../jest/waiting.ts';

/** What scripts/build made: these tests run the product as people do. */
const program = fileURLToPath(new URL('../../../dist/vipnat.js', import.meta.url));

/** The end of a test that hangs: what it waits for has given up by then, and has said what it was. */
export const limitMs = 180_000;

// Of agents that are started with this environment. After its usual minute an agent looks by itself, and hides a trigger that is missing.
process.env['VIPNAT_TEST_TICK_MS'] = '600000';

/** The command line of vipnat, to be put behind a wrapper such as setpriv. */
export function vipnatCommand(args: readonly string[]): string[] {
  return [process.execPath, program, ...args];
}

export function vipnat(
  cluster: Cluster,
  machine: string,
  args: readonly string[],
  environment: Record<string, string> = {},
): Promise<CommandResult> {
  return cluster.run(machine, vipnatCommand(args), { environment });
}

/** A running `vipnat run` and all that it has logged. */
export class Agent {
  readonly #child: ChildProcess;
  readonly #ended: Promise<number | null>;
  #log = '';

  constructor(child: ChildProcess) {
    this.#child = child;
    this.#ended = new Promise((resolve) => child.once('exit', resolve));
    child.stderr?.on('data', (text: Buffer) => (this.#log += text.toString()));
  }

  /** Everything that it wrote to standard error so far. */
  get log(): string {
    return this.#log;
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  listLines(pattern: RegExp): string[] {
    return this.#log.split('\n').filter((line) => pattern.test(line));
  }

  /** Waits until a line logged after the first `from` characters matches; rejects with the log when none comes. */
  async waitForLine(pattern: RegExp, from = 0): Promise<void> {
    await waitUntil(
      () => pattern.test(this.#log.slice(from)),
      () => `the agent did not log ${String(pattern)}:\n${this.#log}`,
    );
  }

  /** Sends a signal that does not end it. */
  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Sends a signal and waits for the end. Answers the exit status; null when the signal itself ended it. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    this.#child.kill(signal);
    return this.#ended;
  }
}

/** Starts `vipnat run` on a machine; answers once it has said which way each VIP goes, so its rules are there. */
export async function startAgent(
  cluster: Cluster,
  machine: string,
  args: readonly string[],
  environment: NodeJS.ProcessEnv = process.env,
): Promise<Agent> {
  const agent = new Agent(cluster.start(machine, vipnatCommand(['run', ...args]), environment));
  await agent.waitForLine(/ (?:service-chain|cluster-ip|direct to \S.*|passthrough): /);
  return agent;
}

/** Waits until `vipnat check` on a machine finds nothing to say. */
export async function waitForSync(cluster: Cluster, machine: string, args: readonly string[]): Promise<void> {
  let last = '';
  await waitUntil(
    async () => {
      const { exitCode, stdout, stderr } = await vipnat(cluster, machine, ['check', ...args]);
      last = `${stdout}${stderr}`;
      return exitCode === 0;
    },
    () => `still not in sync on ${machine}: ${last}`,
  );
}
