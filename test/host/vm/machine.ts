import { mkdtempSync, rmSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { chooseCpu } from '../../../tools/lab/guest/cpu.ts';
import { umlCommand } from '../../../tools/lab/guest/uml.ts';
import { WaitedTooLong } from '../../support/jest/waiting.ts';
import { spawn } from 'node:child_process';
import { atEnd } from '../../support/network/at-end.ts';
import { once } from 'node:events';

/** Booting takes 2 s and system calls are slow in there; a guest that takes this long hangs. */
const limitMs = 300_000;

/** For a test that runs a machine: it is over before that. */
export const machineLimitMs = limitMs + 30_000;

/**
 * Boots user-mode Linux on this host's files, runs a program in it with this Node, and answers what the program
 * wrote to `report.json` in its GUEST_FOLDER. Rejects with what it printed when it wrote none. The kernel is started with the
 * named libraries, or with those that this processor needs.
 */
export async function runInMachine(program: string, libraries?: readonly string[]): Promise<unknown> {
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-vm-'));
  try {
    const options = { memoryMb: 768, program, folder, cpu: chooseCpu(0) };
    const command = await umlCommand(libraries === undefined ? options : { ...options, libraries });
    const { console, isHung } = await run(command);
    return readReport(folder, (output) => {
      const what = `the guest ${isHung ? 'hung' : 'wrote no report'}; it printed:\n${output}\nits console:\n${console}`;
      return isHung ? new WaitedTooLong(what) : new Error(what);
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What a machine wrote to its console until its end, and whether it had to be ended. */
async function run([command = '', ...words]: readonly string[]): Promise<{
  readonly console: string;
  readonly isHung: boolean;
}> {
  const machine = spawn(command, words, { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let [console, isHung] = ['', false];
  for (const output of [machine.stdout, machine.stderr])
    output.setEncoding('utf8').on('data', (text: string) => (console += text));
  // A machine is a group of processes: the group's number is its leader's.
  const kill = () => process.kill(-(machine.pid ?? 0), 'SIGKILL');
  const takeBack = atEnd(kill);
  const timer = setTimeout(() => {
    isHung = true;
    kill();
  }, limitMs);
  await once(machine, 'close');
  clearTimeout(timer);
  takeBack();
  return { console, isHung };
}

function readReport(folder: string, complain: (output: string) => Error): unknown {
  try {
    return JSON.parse(readFileSync(join(folder, 'report.json'), 'utf8'));
  } catch {
    throw complain(readText(join(folder, 'output')));
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '(nothing)';
  }
}
