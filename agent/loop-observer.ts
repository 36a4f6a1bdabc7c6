import { type Assessment } from './assess.ts';
import { type FlowReport } from './flow-resets.ts';
import { type ForwardingReport } from './forwarding.ts';
import { type ListeningReport } from './keepalived/judge-serving.ts';
import { type ServingReport } from './keepalived/serving-keeper.ts';
import { type Plan } from './plan.ts';
import { type Cause } from './turns.ts';

/** Who is told of what the loop does: the log, the metrics, whoever remembers it. */
export interface LoopObserver extends FlowReport, ForwardingReport, ListeningReport, ServingReport {
  /** After a look that succeeded, before anything is done about it. */
  looked(assessment: Assessment, tookMs: number): void;
  /** Before a write: what it is for. */
  drift(assessment: Assessment, causes: readonly Cause[]): void;
  /** After a write. */
  written(): void;
  /** After a look that found nothing to do. */
  inSync(assessment: Assessment): void;
  /** Instead of a write, when the budget for repairs is spent: for so long. */
  fight(plan: Plan, waitMs: number): void;
  /** After a look or write that failed. */
  failure(error: unknown, retryMs: number): void;
}

/** Tells several of everything, in their order; each hears what it has a method for. */
export function tellAll(observers: readonly Partial<LoopObserver>[]): LoopObserver {
  const tell =
    <Name extends keyof LoopObserver>(name: Name) =>
    (...words: Parameters<LoopObserver[Name]>) => {
      for (const observer of observers) {
        const hear = observer[name] as ((...said: unknown[]) => void) | undefined;
        hear?.apply(observer, words);
      }
    };
  return {
    looked: tell('looked'),
    drift: tell('drift'),
    written: tell('written'),
    inSync: tell('inSync'),
    fight: tell('fight'),
    failure: tell('failure'),
    flowsReset: tell('flowsReset'),
    flowsNotReset: tell('flowsNotReset'),
    switchedOn: tell('switchedOn'),
    contested: tell('contested'),
    notSwitched: tell('notSwitched'),
    changed: tell('changed'),
    notWritten: tell('notWritten'),
    listeningRead: tell('listeningRead'),
  };
}
