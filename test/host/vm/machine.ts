import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atEnd } from '../../support/network/at-end.ts';
import { chooseCpu } from '../../../lab/guest/cpu.ts';
import { umlCommand } from '../../../lab/guest/uml.ts';

/** Booting takes 2 s and system calls are slow in there; a guest that takes this long hangs. */
const limitMs = 300_000;

/**
 * Boots user-mode Linux on this host's files, runs a program in it with this Node, and answers what the program
 * wrote to `report.json` in its GUEST_FOLDER. Rejects with what it printed when it wrote none.
 */
export async function runInMachine(program: string): Promise<unknown> {
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-vm-'));
  try {
    const [command = '', ...words] = umlCommand({ memoryMb: 768, program, folder, cpu: chooseCpu(0) });
    const machine = spawn(command, words, { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    let console_ = '';
    machine.stdout.setEncoding('utf8').on('data', (text: string) => (console_ += text));
    // A machine is a group of processes: the group's number is its leader's.
    const kill = () => process.kill(-(machine.pid ?? 0), 'SIGKILL');
    const takeBack = atEnd(kill);
    const timer = setTimeout(kill, limitMs);
    await once(machine, 'close');
    clearTimeout(timer);
    takeBack();
    return readReport(folder, console_);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function readReport(folder: string, console_: string): unknown {
  try {
    return JSON.parse(readFileSync(join(folder, 'report.json'), 'utf8'));
  } catch {
    const output = readText(join(folder, 'output'));
    throw new Error(`the guest wrote no report; it printed:\n${output}\nits console:\n${console_}`);
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '(nothing)';
  }
}
