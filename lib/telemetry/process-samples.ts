import { sampled, type Sample } from './catalogue.ts';

/** What a process is like at a moment. */
export interface ProcessState {
  readonly version: string;
  readonly nodeVersion: string;
  readonly startedAt: Date;
  readonly cpuSeconds: number;
  readonly residentBytes: number;
}

/** Metrics that every process has. */
export const processMetrics = {
  vipnat_build_info: sampled.vipnat_build_info,
  process_start_time_seconds: sampled.process_start_time_seconds,
  process_cpu_seconds_total: sampled.process_cpu_seconds_total,
  process_resident_memory_bytes: sampled.process_resident_memory_bytes,
};

/** One value of one of them. */
export type ProcessSample = Sample & { readonly name: keyof typeof processMetrics };

/** All values of a process. Pure. */
export function listProcessSamples({ version, nodeVersion, ...rest }: ProcessState): ProcessSample[] {
  return [
    sample('vipnat_build_info', 1, { version, node_version: nodeVersion }),
    sample('process_start_time_seconds', rest.startedAt.getTime() / 1000),
    sample('process_cpu_seconds_total', rest.cpuSeconds),
    sample('process_resident_memory_bytes', rest.residentBytes),
  ];
}

function sample(
  name: ProcessSample['name'],
  value: number,
  labels: Readonly<Record<string, string>> = {},
): ProcessSample {
  return { name, labels, value };
}

/** This process as it is now. */
export function readProcess(version: string, startedAt: Date): ProcessState {
  const { user, system } = process.cpuUsage();
  return {
    version,
    nodeVersion: process.versions.node,
    startedAt,
    cpuSeconds: (user + system) / 1e6,
    residentBytes: process.memoryUsage.rss(),
  };
}
