import type { ChildProcess } from 'node:child_process';

/** The end of a command on a machine. */
export interface CommandResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a command runs. */
export interface RunOptions {
  /** Its standard input; empty by default. */
  readonly input?: string;
  /** Variables on top of the caller's own. */
  readonly environment?: Readonly<Record<string, string>>;
  /** After so many milliseconds it is killed: exit code 137. 60 seconds by default. */
  readonly limitMs?: number;
}

/** A host of the lab, on files of the caller's machine: a network namespace with what belongs to it, or a kernel of its own. */
export interface Machine {
  readonly name: string;
  /** Runs a command to its end. Never rejects for a failing command, see `exitCode`, but when the machine is gone. */
  run(command: readonly string[], options?: RunOptions): Promise<CommandResult>;
  /**
   * Starts a process that is talked to over its standard input and output, or that has the caller's own with
   * `inherit`. Its errors go where the caller's go. It has to end with its standard input: killing the process that is answered does not reach the machine.
   */
  spawn(command: readonly string[], stdio?: 'pipe' | 'inherit'): ChildProcess;
}

/** Runs a shell script on a machine; rejects with what it printed when it fails. */
export async function runShell(machine: Machine, script: string): Promise<string> {
  const { exitCode, stdout, stderr } = await machine.run(['sh', '-e', '-s'], { input: script });
  if (exitCode !== 0) throw new Error(`on ${machine.name}: exit status ${exitCode}: ${stderr}\n${script}`);
  return stdout;
}
