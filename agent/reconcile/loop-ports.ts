import { type Clock } from '../../lib/control/clock.ts';
import { type HealthView } from '../health/usable.ts';
import { type ServingPorts } from '../keepalived/judge-serving.ts';
import { type LastingState } from '../observe/reconcile-state.ts';
import { type LoopObserver } from '../report/loop-observer.ts';
import { type HealthSource, type LookPorts } from './look.ts';

/** What the loop needs of the world. */
export interface LoopPorts extends LookPorts, ServingPorts {
  readonly clock: Clock;
  readonly health: HealthSource & { readonly view: HealthView; readonly departed?: HealthView };
  readonly report: LoopObserver;
  /** Keeps the apiservers that a look leaves in memory, for the next process. */
  readonly keeper: { keep(known: LastingState): void };
  /** Tells keepalived whether this node can serve. */
  readonly serving: { keep(isServing: boolean): void };
  /** How long it rests where all is right and nothing calls for a look; a minute when left out. */
  readonly tickMs?: number | undefined;
}

/** What a loop has done so far. */
export interface Activity {
  readonly writes: number;
  readonly lookedAt: number | null;
  /** For how long the look under way has lasted, or the next one is overdue: 0 while all goes well. */
  readonly behindMs: number;
}
