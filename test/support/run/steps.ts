import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { Extent } from '../jest/extent.ts';
import type { RunOptions } from './arguments.ts';
import type { Addition } from './changes.ts';
import { findParts, hasLab, measuringFiles, type Part } from './parts.ts';

const minuteMs = 60_000;
/** The end of a hang of one step: of the gate, of all parts but the slow ones, and of a night. */
const extentToMinutes: Readonly<Record<Extent, number>> = { gate: 20, full: 85, long: 720 };

/** Parts that run at the same time in one Jest. */
export interface Step {
  readonly name: string;
  readonly layer: string;
  readonly parts: readonly Part[];
  readonly projects: readonly string[];
  readonly extent: Extent;
  readonly words: readonly string[];
  /** Whether it measures what clients lose: then nothing else may run. */
  readonly isMeasuring: boolean;
  readonly needsComponents: boolean;
  readonly limitMs: number;
}

/** Puts parts of one team together, in their order. Jest's own arguments may choose files, so nothing is divided then. */
export function planSteps(chosen: readonly Part[], options: RunOptions, labs: number): Step[] {
  const groups: Part[][] = [];
  for (const part of chosen) {
    const last = groups.at(-1);
    if (last !== undefined && part.team !== undefined && last[0]?.team === part.team) last.push(part);
    else groups.push([part]);
  }
  return groups.flatMap((group) => planGroup(group, options, labs));
}

function planGroup(group: readonly Part[], options: RunOptions, labs: number): Step[] {
  const { extent, jestArguments, isOnLab } = options;
  const [first] = group;
  if (first === undefined) return [];
  const step = createStep(group, extent, [...countWorkers(group, labs), ...jestArguments]);
  if (first.name === 'chaos' && isOnLab) {
    const words = ['--runInBand', '--testPathPatterns', 'control-plane/chaos', ...jestArguments];
    return [{ ...step, projects: ['control-plane'], needsComponents: true, words }];
  }
  if (first.name !== 'netns' || extent === 'gate' || jestArguments.length > 0) return [step];
  const measuring = ['--runInBand', '--testPathPatterns', measuringFiles];
  return [
    { ...step, words: [...step.words, '--testPathIgnorePatterns', measuringFiles] },
    { ...step, name: 'netns, measuring', isMeasuring: true, words: measuring },
  ];
}

function createStep(group: readonly Part[], extent: Extent, words: readonly string[]): Step {
  const names = group.map(({ name }) => name);
  return {
    ...{ name: names.join(' '), layer: group[0]?.layer ?? '', parts: group, projects: names },
    ...{ extent, words, isMeasuring: names.includes('load') && extent !== 'gate' },
    ...{ needsComponents: group.some((part) => hasLab(part)), limitMs: extentToMinutes[extent] * minuteMs },
  };
}

function countWorkers(group: readonly Part[], labs: number): string[] {
  const count = group[0]?.team === 'labs' ? labs : (group[0]?.workers ?? 2);
  return [count === 1 ? '--runInBand' : `--maxWorkers=${count}`];
}

/** Tests beside the gate, which run in full. */
export function planAddition({ part, files }: Addition): Step {
  const words = ['--runInBand', '--testPathPatterns', files];
  return {
    ...createStep(findParts(part), 'full', words),
    name: `${part}, by change`,
    limitMs: 15 * minuteMs,
  };
}

/** One file, alone on the machine. Of Jest's own arguments the choice of tests by title stays. */
export function planRetry(step: Step, file: string, jestArguments: readonly string[]): Step {
  const words = ['--runInBand', '--runTestsByPath', file, ...keepTitles(jestArguments)];
  return { ...step, name: `${step.name}, again`, words, isMeasuring: true };
}

function keepTitles(words: readonly string[]): string[] {
  const index = words.findIndex((word) => word === '-t' || word === '--testNamePattern');
  return index === -1 ? [] : words.slice(index, index + 2);
}

/**
 * How many labs fit in at once: one takes 2.5 GB of memory, and two processors: beside another one on two of them keepalived's checks time out.
 * With `--long` the figures are for one lab, which has the processors for itself.
 */
export function countLabs(extent: Extent): number {
  const [, available = '0'] = /^MemAvailable:\s+(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'utf8')) ?? [];
  return extent !== 'long' && Number(available) >= 9_000_000 && availableParallelism() >= 4 ? 2 : 1;
}
