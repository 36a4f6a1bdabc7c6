import { readFileSync } from 'node:fs';

/** One of the processors that this process may use, in turn by index. */
export function chooseCpu(index: number): number {
  const [, list = '0'] =
    /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  const cpus = parseCpuList(list);
  return cpus[index % cpus.length] ?? 0;
}

/** As the kernel lists them: `0-3,8`. */
function parseCpuList(list: string): number[] {
  return list.split(',').flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
  });
}
