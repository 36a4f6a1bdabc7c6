import type { LabOptions } from '../settings/options.ts';
import type { SandboxState } from '../machines/sandbox.ts';
import { join } from 'node:path';
import { labsFolder } from '../settings/folders.ts';
import { readFileSync, mkdirSync, writeFileSync, renameSync, readdirSync } from 'node:fs';

/** What a later process needs to know of a lab that is up. */
export interface LabState {
  readonly options: LabOptions;
  readonly sandbox: SandboxState;
  /** The process that holds each machine's namespaces, as numbered in the sandbox. */
  readonly anchors: Readonly<Record<string, number>>;
}

/** The folder of the lab of a name. */
export function locateLab(name: string): string {
  return join(labsFolder, name);
}

/** What is known of the lab of a name; null when there is none. */
export function readState(name: string): LabState | null {
  try {
    return JSON.parse(readFileSync(locateState(name), 'utf8')) as LabState;
  } catch {
    return null;
  }
}

/** Makes a lab known, whole or not at all. */
export function writeState(state: LabState): void {
  const path = locateState(state.options.name);
  mkdirSync(locateLab(state.options.name), { recursive: true });
  writeFileSync(`${path}.new`, JSON.stringify(state));
  renameSync(`${path}.new`, path);
}

/** The names of all labs with a folder, also of those that are gone. */
export function listLabs(): string[] {
  try {
    return readdirSync(labsFolder);
  } catch {
    return [];
  }
}

function locateState(name: string): string {
  return join(locateLab(name), 'state.json');
}
