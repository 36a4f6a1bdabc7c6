import { FakeKernel } from '../../../support/fakes/kernel.ts';
import type { KernelReading } from '../../../../lib/kernel/port.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { everything } from '../../../../agent/read-host.ts';
import { createHash } from 'node:crypto';

/** A kernel as it is in some state of the world: one object for all states in which it holds the same. Never written to. */
export interface KernelState {
  readonly id: number;
  readonly kernel: FakeKernel;
  readonly reading: KernelReading;
}

export interface Changed {
  readonly to: KernelState;
  /** Whether a tool refused a part of it. What was committed before that stays. */
  readonly isRefused: boolean;
}

/** All kernels that a model meets. The same change of the same kernel is carried out once. */
export class Kernels {
  readonly #clock = new FakeClock();
  readonly #textToKernel = new Map<string, KernelState>();
  readonly #changes = new Map<string, Changed>();

  get count(): number {
    return this.#textToKernel.size;
  }

  createEmpty(): Promise<KernelState> {
    return this.intern(new FakeKernel(this.#clock));
  }

  /** The kernel after a change; `name` says all of what `act` does, which answers whether a tool refused. */
  async change(from: KernelState, name: string, act: (kernel: FakeKernel) => boolean): Promise<Changed> {
    const key = `${from.id} ${name}`;
    const known = this.#changes.get(key);
    if (known !== undefined) return known;
    const kernel = from.kernel.copy();
    const isRefused = act(kernel);
    const changed = { to: await this.intern(kernel), isRefused };
    this.#changes.set(key, changed);
    return changed;
  }

  /** The state that a kernel is in. It must not be changed afterwards. */
  async intern(kernel: FakeKernel): Promise<KernelState> {
    const reading = await kernel.read(everything);
    const text = createHash('sha256').update(JSON.stringify(reading)).digest('base64');
    const known = this.#textToKernel.get(text);
    if (known !== undefined) return known;
    const state = { id: this.#textToKernel.size, kernel, reading };
    this.#textToKernel.set(text, state);
    return state;
  }
}

/** A function of a kernel that is worked out once for each. */
export function oncePerKernel<Answer>(work: (state: KernelState) => Answer): (state: KernelState) => Answer {
  const answers = new WeakMap<KernelState, { readonly answer: Answer }>();
  return (state) => {
    const known = answers.get(state) ?? { answer: work(state) };
    answers.set(state, known);
    return known.answer;
  };
}
