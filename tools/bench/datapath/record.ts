import type { SettingName, PathName } from './settings.ts';
import type { WorkloadName } from './workloads.ts';
import { Rounds } from '../shared/record.ts';

/** Microseconds. */
export interface Latencies {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** What `datapath load` prints of one window. */
export interface Window {
  readonly seconds: number;
  readonly requests: number;
  /** Failed requests by their reason, those before the window included. */
  readonly errors: Readonly<Record<string, number>>;
  readonly all: Latencies;
  /** By who answered. */
  readonly servers: Readonly<Record<string, Latencies & { readonly requests: number }>>;
  /** Seconds of one processor, over all processors of the machine. */
  readonly machine: { readonly busy: number; readonly idle: number };
  /** The agent's and HAProxy's own part of it, and their memory with all connections open. */
  readonly watched: Readonly<Record<string, { readonly seconds: number; readonly megabytes: number }>>;
}

/** One window, with what it is of. */
export interface WindowRecord extends Window {
  readonly setting: SettingName;
  readonly workload: WorkloadName;
  readonly clients: number;
  readonly path: PathName;
  readonly round: number;
  /** Who held the VIP. */
  readonly holder: string;
  /** What the machine did in the same second without any client: seconds of one processor each second. */
  readonly rest: number;
  /** When it ended, as in ISO 8601. */
  readonly at: string;
}

/** All windows measured so far. */
export const record = new Rounds<WindowRecord>('datapath');
