import { readFileSync } from 'node:fs';
import { type Machine } from '../../lab/machines/machine.ts';
import { type Service } from '../../lab/service.ts';

/** What a running agent holds and has used. */
export interface AgentFigures {
  /** Resident, in bytes. */
  readonly memory: number;
  readonly descriptors: number;
  /** Its own and that of the tools it ran, since its start. */
  readonly processorMs: number;
}

/** Linux counts process time in hundredths of a second on every architecture we build for. */
const millisecondsPerTick = 10;

/** Looks at an agent from its own machine. */
export async function measureAgent(machine: Machine, agent: Service): Promise<AgentFigures> {
  const script = 'grep VmRSS /proc/$1/status; ls /proc/$1/fd | wc -l; cat /proc/$1/stat';
  const { stdout } = await machine.run(['sh', '-c', script, 'sh', String(agent.readPid())]);
  const [memory = '', descriptors = '', stat = ''] = stdout.trim().split('\n');
  // The name in parentheses may hold blanks; fields 14 to 17 are utime, stime, cutime and cstime (proc(5)).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return {
    memory: Number(/\d+/.exec(memory)?.[0] ?? 0) * 1024,
    descriptors: Number(descriptors),
    processorMs: ticks * millisecondsPerTick,
  };
}

/** For how long each apiserver was out of use that an agent's log says has fallen, in milliseconds; Infinity for one that did not come back. */
export function readFalls(logFile: string): number[] {
  const fallen = new Map<string, number>();
  const falls: number[] = [];
  for (const line of readFileSync(logFile, 'utf8').split('\n')) {
    const [, hours, minutes, seconds, endpoint = '', state] =
      /^(\d\d):(\d\d):(\d\d\.\d{3}) info +(\S+) is (dead|draining|ready)/.exec(line) ?? [];
    const atMs = (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000;
    if (state === 'ready' && fallen.has(endpoint)) {
      falls.push(Math.round(atMs - (fallen.get(endpoint) ?? 0)));
      fallen.delete(endpoint);
    } else if (state !== undefined && state !== 'ready') fallen.set(endpoint, fallen.get(endpoint) ?? atMs);
  }
  return [...falls, ...[...fallen].map(() => Infinity)];
}
