import type { Sample } from './record.ts';

/** The figures that are told, and how they are written. */
export const figures = [
  { key: 'memory', title: 'resident memory', unit: 'MiB', digits: 1 },
  { key: 'descriptors', title: 'file descriptors', unit: '', digits: 0 },
  { key: 'children', title: 'child processes', unit: '', digits: 0 },
  { key: 'wakeups', title: 'wakeups', unit: '/s', digits: 0 },
] as const;

/** One of them. */
export type FigureKey = (typeof figures)[number]['key'];

/** A figure at a time. */
export interface Point {
  readonly atSeconds: number;
  readonly value: number;
  readonly phase: Sample['phase'];
}

/** One figure of one agent over a run. */
export interface Trend {
  readonly agent: string;
  readonly key: FigureKey;
  /** Medians of the first and the last window, and the least of each. */
  readonly first: number;
  readonly last: number;
  readonly firstLeast: number;
  readonly lastLeast: number;
  /** Of the straight line through the whole time with faults. */
  readonly slopePerHour: number;
}

/** A run of an hour is compared in parts of ten minutes. */
const windowCount = 6;

/** The heap finds its size meanwhile. */
const settledMinutes = 30;

/** By how much of itself the least memory of a window may be above that of the second one: what the heap's own breathing leaves. */
const growthShare = 0.05;

/** Timers that stay behind wake the process more often; a busy machine makes for some noise. */
const wakeupShare = 1.5;

/** One figure of one agent, by time; a rate needs two samples, so it has one point less. */
export function toPoints(samples: readonly Sample[], agent: string, key: FigureKey): Point[] {
  const own = samples.filter((sample) => sample.agent === agent);
  if (key === 'wakeups') {
    return own.slice(1).map((sample, index) => {
      const { atSeconds, wakeups, phase } = own[index] ?? sample;
      const value = (sample.wakeups - wakeups) / (sample.atSeconds - atSeconds);
      return { atSeconds: sample.atSeconds, value, phase };
    });
  }
  const scale = key === 'memory' ? 1024 ** 2 : 1;
  return own.map((sample) => ({
    atSeconds: sample.atSeconds,
    value: sample[key] / scale,
    phase: sample.phase,
  }));
}

/** The agents that samples are of, in order. */
export function listAgents(samples: readonly Sample[]): string[] {
  return [...new Set(samples.map(({ agent }) => agent))].sort();
}

/** How every figure of every agent went while there were faults. */
export function findTrends(samples: readonly Sample[]): Trend[] {
  return figures.flatMap(({ key }) =>
    listAgents(samples).map((agent) => {
      const points = toPoints(samples, agent, key).filter(({ phase }) => phase === 'faults');
      const windows = toWindows(points);
      const [first = [], last = []] = [windows[0], windows.at(-1)];
      return {
        ...{ agent, key, first: median(first), last: median(last) },
        ...{ firstLeast: Math.min(...first), lastLeast: Math.min(...last) },
        slopePerHour: fitSlope(points.map(({ atSeconds, value }) => [atSeconds / 3600, value])),
      };
    }),
  );
}

/** What speaks for a leak, one line each. Memory says nothing before half an hour is over. */
export function findLeaks(samples: readonly Sample[], minutes: number): string[] {
  return listAgents(samples).flatMap((agent) => [
    ...findRestart(samples, agent),
    ...(minutes < settledMinutes ? [] : findGrowth(toPoints(samples, agent, 'memory'), agent)),
    ...findLeftovers(samples, agent, 'descriptors'),
    ...findLeftovers(samples, agent, 'children'),
    ...findWakeups(toPoints(samples, agent, 'wakeups'), agent),
  ]);
}

function findRestart(samples: readonly Sample[], agent: string): string[] {
  const pids = new Set(samples.filter((sample) => sample.agent === agent).map(({ pid }) => pid));
  return pids.size > 1 ? [`${agent}: the agent was another process at the end`] : [];
}

/**
 * The least of each window, which is what a collection leaves: growth is steady when nearly each is above the one
 * before, the last is the greatest, and it is above the second by more than the heap breathes. The first is left out.
 */
function findGrowth(points: readonly Point[], agent: string): string[] {
  const [, ...floors] = toWindows(points.filter(({ phase }) => phase === 'faults')).map((window) =>
    Math.min(...window),
  );
  const [second = 0, last = 0] = [floors[0], floors.at(-1)];
  const rises = floors.filter((floor, index) => index > 0 && floor > (floors[index - 1] ?? 0)).length;
  const isSteady = rises >= floors.length - 2 && last === Math.max(...floors);
  if (!isSteady || last - second <= growthShare * second) return [];
  const words = floors.map((floor) => floor.toFixed(1)).join(', ');
  return [`${agent}: memory grows steadily: at least ${words} MiB in the last ${floors.length} windows`];
}

/** What is held in rest at the end is no more than what was held in rest at the beginning. */
function findLeftovers(samples: readonly Sample[], agent: string, key: 'descriptors' | 'children'): string[] {
  const values = (phase: Sample['phase']) =>
    samples.filter((sample) => sample.agent === agent && sample.phase === phase).map((sample) => sample[key]);
  const [before, after] = [Math.max(...values('before')), Math.min(...values('after'))];
  if (after <= before) return [];
  return [`${agent}: ${before} ${key} at the beginning, and never fewer than ${after} at the end`];
}

function findWakeups(points: readonly Point[], agent: string): string[] {
  const rate = (phase: Sample['phase']) =>
    median(points.filter((point) => point.phase === phase).map(({ value }) => value));
  const [before, after] = [rate('before'), rate('after')];
  if (!(after > wakeupShare * before)) return [];
  return [`${agent}: ${before.toFixed(0)} wakeups a second at the beginning, ${after.toFixed(0)} at the end`];
}

/** In equal parts of time. */
function toWindows(points: readonly Point[]): number[][] {
  const [from = 0, to = 0] = [points[0]?.atSeconds, points.at(-1)?.atSeconds];
  const width = (to - from) / windowCount;
  const windows = Array.from({ length: windowCount }, (): number[] => []);
  for (const { atSeconds, value } of points) {
    windows[Math.min(windowCount - 1, Math.floor((atSeconds - from) / width))]?.push(value);
  }
  return windows.filter((window) => window.length > 0);
}

/** Of the line with the least squares. */
function fitSlope(points: readonly (readonly [x: number, y: number])[]): number {
  const mean = (index: 0 | 1) => points.reduce((sum, point) => sum + point[index], 0) / points.length;
  const [meanX, meanY] = [mean(0), mean(1)];
  const across = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0);
  return across / points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
