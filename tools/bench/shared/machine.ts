import { cpus, totalmem, release } from 'node:os';

/** What figures depend on: the machine in a few words. */
export function describeMachine(): string {
  const [cpu] = cpus();
  const gigabytes = (totalmem() / 1024 ** 3).toFixed(0);
  return `${cpus().length} cores (${cpu?.model.trim() ?? 'unknown'}), ${gigabytes} GiB of memory, Linux ${release()}`;
}

/** What was run, when, where and with what: the first line of a report. Dates as ISO 8601 has them; versions as `[NAME, VERSION]`. */
export function describeRun(
  command: string,
  dates: readonly string[],
  versions: readonly (readonly [string, string])[],
): string {
  const days = dates.map((at) => at.slice(0, 10)).sort();
  const period = [...new Set([days[0], days.at(-1)])].join(' to ');
  const what = versions.map((words) => words.join(' ')).join(', ');
  return (
    [`\`${command}\`, ${period}`, describeMachine(), what].filter((part) => part !== '').join('. ') + '.'
  );
}
