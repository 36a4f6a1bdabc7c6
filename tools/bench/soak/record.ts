import type { AgentFigures } from '../loss/agents.ts';
import type { SoakStep } from './faults.ts';
import { fileURLToPath } from 'node:url';
import { mkdirSync, writeFileSync, appendFileSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** What one agent held and had done at one moment. */
export interface Sample extends AgentFigures {
  readonly kind: 'sample';
  readonly agent: string;
  /** Since the first one. */
  readonly atSeconds: number;
  /** There are faults only in the middle one. */
  readonly phase: 'before' | 'faults' | 'after';
  /** Writes to the rules since its start, as it says itself. */
  readonly writes: number;
}

/** A fault that was done. */
export interface FaultRecord extends SoakStep {
  readonly kind: 'fault';
  readonly atSeconds: number;
}

/** What the whole run was. */
export interface RunRecord {
  readonly kind: 'run';
  readonly minutes: number;
  readonly seed: number;
  /** When it ended, as in ISO 8601. */
  readonly at: string;
  /** New connections of the client, and how many of them failed. */
  readonly sent: number;
  readonly failed: number;
}

/** One line of the record. */
export type SoakRecord = Sample | FaultRecord | RunRecord;

const recordFile = fileURLToPath(new URL('../../../.cache/bench/soak.jsonl', import.meta.url));

/** Forgets the run before. */
export function beginRecord(): void {
  mkdirSync(dirname(recordFile), { recursive: true });
  writeFileSync(recordFile, '');
}

/** Adds some lines. */
export function appendRecords(records: readonly SoakRecord[]): void {
  appendFileSync(recordFile, records.map((record) => `${JSON.stringify(record)}\n`).join(''));
}

/** The last run's lines, in the order of their time; none when there was no run. */
export function readRecords(): SoakRecord[] {
  let text: string;
  try {
    text = readFileSync(recordFile, 'utf8');
  } catch {
    return [];
  }
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as SoakRecord);
}
