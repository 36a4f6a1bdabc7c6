import type { Lab } from '../control-plane/lab.ts';

/** Each process' share of the memory (PSS), which counts what several share only once: name and kibibytes. */
const script =
  'for process in /proc/[0-9]*; do awk -v name="$(cat $process/comm)" \'/^Pss:/ { print name, $2 }\' $process/smaps_rollup; done 2>/dev/null';

/** What a node's processes take of the memory, in MiB, in all. */
export async function measureMemory(lab: Lab, node: string): Promise<number> {
  const { stdout } = await lab.machine(node).run(['sh', '-c', script]);
  const kibibytes = stdout.split('\n').map((line) => Number(line.split(' ').at(-1)));
  return kibibytes.reduce((sum, size) => sum + (Number.isNaN(size) ? 0 : size), 0) / 1024;
}
