import type { HaproxyPair } from './pair.ts';

/** The words for them. */
export const setUpNames = ['update', 'kill', 'link'] as const;

/** One of them. */
export type SetUpName = (typeof setUpNames)[number];

/** What happens to the active unit. */
interface Fault {
  /** Until it is mended. */
  readonly lengthMs: number;
  break(pair: HaproxyPair, unit: number): Promise<void>;
  mend(pair: HaproxyPair, unit: number): Promise<void>;
}

/** What happens during a rolling update. */
export interface SetUp {
  readonly title: string;
  readonly fault: Fault | null;
}

/** By their words. */
export const setUps: Readonly<Record<SetUpName, SetUp>> = {
  update: { title: 'nothing else', fault: null },
  kill: {
    title: 'HAProxy of the active unit is killed, and starts again after a second',
    fault: {
      // As `RestartSec` of the printed unit of systemd.
      lengthMs: 1000,
      break: (pair, unit) => pair.killHaproxy(unit),
      mend: (pair, unit) => pair.startHaproxy(unit),
    },
  },
  link: {
    title: 'the active unit loses its link for 5 s',
    fault: {
      lengthMs: 5000,
      break: (pair, unit) => pair.setLink(unit, 'down'),
      mend: (pair, unit) => pair.setLink(unit, 'up'),
    },
  },
};
