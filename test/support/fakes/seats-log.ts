import type { SeatsListener } from '../../../balancer/seats/plan.ts';

/** Keeps what is told of seats, in the order in which it came: `written`, `refused WORDS`. */
export function createSeatsRecord(): SeatsListener & { readonly told: readonly string[] } {
  const told: string[] = [];
  const note =
    (name: string) =>
    (...detail: unknown[]) => {
      told.push(
        [name, ...detail.map((word) => (word instanceof Error ? word.message : String(word)))].join(' '),
      );
    };
  return {
    told,
    held: note('held'),
    stateChanged: note('stateChanged'),
    inUse: note('inUse'),
    leftOut: note('leftOut'),
    written: note('written'),
    refused: note('refused'),
    notChecked: note('notChecked'),
    running: note('running'),
    changed: note('changed'),
    notWritten: note('notWritten'),
    failed: note('failed'),
  };
}
