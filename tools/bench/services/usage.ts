import type { Machine } from '../../lab/machines/machine.ts';
import type { Service } from '../../lab/machines/service.ts';

/** What a process has taken so far. */
export interface Usage {
  /** Its own and that of the tools that it ran and that have ended: milliseconds of one processor. */
  readonly processorMs: number;
  /** The part of the tools. */
  readonly toolsMs: number;
  /** Its memory now, shared pages in part (PSS), in MiB. */
  readonly megabytes: number;
  /** The most that it ever had in memory (RSS), in MiB. */
  readonly peakMegabytes: number;
}

/** Linux counts process time in hundredths of a second on every architecture we build for. */
const millisecondsPerTick = 10;

const script = 'cd /proc/$1; cat stat; grep ^Pss: smaps_rollup; grep ^VmHWM: status';

/** Looks at a process from its own machine. */
export async function readUsage(machine: Machine, service: Service): Promise<Usage> {
  const command = ['sh', '-ec', script, 'sh', String(service.readPid())];
  const { exitCode, stdout } = await machine.run(command);
  if (exitCode !== 0) throw new Error(`${service.describe()} has ended:\n${service.readTail()}`);
  return parseUsage(stdout);
}

/** What the script printed. */
export function parseUsage(text: string): Usage {
  const [stat = '', pss = '', peak = ''] = text.split('\n');
  // The name in parentheses may hold blanks; fields 14 to 17 are utime, stime, cutime and cstime (proc(5)).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user = 0, system = 0, toolsUser = 0, toolsSystem = 0] = fields.slice(11, 15).map(Number);
  return {
    processorMs: (user + system + toolsUser + toolsSystem) * millisecondsPerTick,
    toolsMs: (toolsUser + toolsSystem) * millisecondsPerTick,
    megabytes: readKilobytes(pss) / 1024,
    peakMegabytes: readKilobytes(peak) / 1024,
  };
}

function readKilobytes(line: string): number {
  return Number(/(\d+) kB/.exec(line)?.[1]);
}
