/**
 * What a walk does often, and what it never does. Faults need a few things to meet, and a walk in which everything happens equally
 * often seldom has them close together: so each walk draws its own habits (swarm testing).
 */
import { type Random } from '../../../support/random/random.ts';

export interface Habits {
  /** The Services there may be: with few of them, more happens to each. */
  readonly serviceKeys: readonly string[];
  /** Names of deeds, each as often as its weight. */
  readonly deeds: readonly string[];
  /** In percent: of requests that are lost, or whose answers are. */
  readonly lossPercent: number;
  /** In percent: of events' chances that are taken. */
  readonly hearPercent: number;
  /** Of 200 actions: passing time, deeds, scenes, calms, and what happens to nodes and to leaders. All others are small ones. */
  readonly shares: Readonly<Record<'time' | 'deeds' | 'scenes' | 'nodes' | 'calms' | 'leaders', number>>;
  /** In percent: of nodes' troubles that cut them off. */
  readonly cutPercent: number;
  /** In percent: of leaders' troubles that make one deaf for a kind, or hold it up. */
  readonly deafPercent: number;
  readonly pausePercent: number;
}

const keys = ['apps/a', 'apps/b', 'apps/c', 'infra/d', 'infra/e'];

/** Without a Service there is nothing to do. */
const always = ['creates a Service', 'deletes a Service'];

export function drawHabits(random: Random, deedNames: readonly string[]): Habits {
  const count = random.pick([2, 2, 3, 5]);
  const weigh = (name: string) =>
    always.includes(name) ? random.pick([1, 3]) : random.pick([0, 0, 1, 1, 4]);
  return {
    serviceKeys: keys.slice(0, count),
    deeds: deedNames.flatMap((name) => Array.from({ length: weigh(name) }, () => name)),
    lossPercent: random.pick([0, 10, 10, 30]),
    hearPercent: random.pick([20, 60, 100]),
    shares: {
      time: random.pick([4, 8, 12]),
      deeds: random.pick([6, 12, 20]),
      scenes: random.pick([1, 4, 10]),
      nodes: random.pick([1, 5, 10]),
      calms: random.pick([0, 2, 6]),
      leaders: random.pick([1, 3, 6]),
    },
    cutPercent: random.pick([10, 30, 60]),
    deafPercent: random.pick([10, 40, 80]),
    pausePercent: random.pick([0, 50, 90]),
  };
}
