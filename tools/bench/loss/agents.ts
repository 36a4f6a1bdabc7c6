import type { Machine } from '../../lab/machines/machine.ts';
import type { Service } from '../../lab/machines/service.ts';
import { readFileSync } from 'node:fs';

/** What a running agent holds and has used. */
export interface AgentFigures {
  /** Resident, in bytes. */
  readonly memory: number;
  readonly descriptors: number;
  /** Tools that run, and those that ended and were not waited for. */
  readonly children: number;
  /** How often its main thread was woken since its start: by timers, sockets and tools. */
  readonly wakeups: number;
  readonly pid: number;
  /** Its own and that of the tools it ran, since its start. */
  readonly processorMs: number;
}

/** Linux counts process time in hundredths of a second on every architecture we build for. */
const millisecondsPerTick = 10;

/** Looks at an agent from its own machine. */
export async function measureAgent(machine: Machine, agent: Service): Promise<AgentFigures> {
  const script = `cd /proc/$1; grep -e VmRSS -e ^voluntary status; ls fd | wc -l; cat task/*/children | wc -w; cat stat`;
  const pid = agent.readPid();
  const { stdout } = await machine.run(['sh', '-c', script, 'sh', String(pid)]);
  const [memory = '', wakeups = '', descriptors = '', children = '', stat = ''] = stdout.trim().split('\n');
  // The name in parentheses may hold blanks; fields 14 to 17 are utime, stime, cutime and cstime (proc(5)).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return {
    memory: readNumber(memory) * 1024,
    descriptors: Number(descriptors),
    children: Number(children),
    wakeups: readNumber(wakeups),
    pid,
    processorMs: ticks * millisecondsPerTick,
  };
}

function readNumber(line: string): number {
  return Number(/\d+/.exec(line)?.[0] ?? 0);
}

/** For how long each apiserver was out of use that an agent's log says has fallen, in milliseconds; Infinity for one that did not come back. */
export function readFalls(logFile: string): number[] {
  const fallen = new Map<string, number>();
  const ejections: number[] = [];
  for (const line of readFileSync(logFile, 'utf8').split('\n')) {
    const [, hours, minutes, seconds, endpoint = '', state] =
      /^(\d\d):(\d\d):(\d\d\.\d{3}) info +(\S+) is (dead|draining|ready)/.exec(line) ?? [];
    const atMs = (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000;
    if (state === 'ready' && fallen.has(endpoint)) {
      ejections.push(Math.round(atMs - (fallen.get(endpoint) ?? 0)));
      fallen.delete(endpoint);
    } else if (state !== undefined && state !== 'ready') fallen.set(endpoint, fallen.get(endpoint) ?? atMs);
  }
  return [...ejections, ...[...fallen].map(() => Infinity)];
}
