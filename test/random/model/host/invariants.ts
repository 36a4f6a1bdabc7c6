/**
 * What every state of the small world is held to, by the numbers of docs/design.md.
 *
 * I1   a process that has not looked has nothing to write; a look that reads is the only way to something to write
 * I2   no predicate of a state: the lint refuses other ways; here, nothing is open after a search (host.test.ts)
 * I3   every look is taken twice and gives the same bytes (looks.ts)
 * I4   in every kernel that was met: what an agent without memory writes to clean up leaves nothing of ours
 * I5   no step of ours changes anything that is not ours; no script goes by index or names what is foreign
 * I6   a look finds at most one transaction for each tool and family
 * I7   left alone it comes to rest (explore.ts), and a look there finds nothing, with memory and without
 * I8   the end of a process changes nothing in the kernel; nor does a look
 * I9   it comes to rest within maxWrites writes; for a stranger that never tires see test/random/property/fight.test.ts
 * I10  at rest, losing the API leads to no write
 * I11  after one look that nobody disturbs no jump of ours pins what kube-proxy wants gone; at rest it is never refused
 * I12  no transaction of a look that nobody disturbs leaves a moment without balance, or sends anywhere else
 */
import { type Kernels, type KernelState, oncePerKernel } from './kernels.ts';
import type { Product } from './product.ts';
import type { Looks } from './looks.ts';
import type { Node } from '../engine/explore.ts';
import type { World } from './world.ts';
import type { Parts } from './steps.ts';
import { checkRound } from './rounds.ts';
import { printForeign, printOurs } from '../../property/tables.ts';
import { isToolRefusing } from '../../../support/fakes/refusal.ts';
import { loseApi, syncProxy } from './actions.ts';
import { emptyState } from '../../../../agent/decide/decision.ts';
import { findWrongEnd } from './oracle.ts';
import { findBreaches } from '../../../support/fakes/protocol.ts';

/** The first write, what learns that kube-proxy changed meanwhile, and the end of a bypass, each in two backends. */
const maxWrites = 6;

/** Checks the states of one search; what was seen of a kernel is kept for other states with it. */
export class Invariants {
  readonly #kernels: Kernels;
  readonly #product: Product;
  readonly #looks: Looks;
  readonly #cleaned = new Set<number>();
  readonly #writesToRest = new Map<Node<World>, number>();

  constructor({ kernels, looks, product }: Parts) {
    this.#kernels = kernels;
    this.#product = product;
    this.#looks = looks;
  }

  /** The most writes that it took from any state to rest. */
  get mostWrites(): number {
    return Math.max(0, ...new Set(this.#writesToRest.values()));
  }

  async check(node: Node<World>): Promise<string[]> {
    const { state, next } = node;
    if (next === null) throw new Error('a state is checked after it was followed');
    const isLookNext = state.process.todo.length === 0;
    return [
      ...checkTodo(state),
      ...checkStep(state, next.state),
      ...this.#checkWrites(node, next),
      ...this.#checkCleanup(state.kernel),
      ...(isLookNext ? checkRound(node) : []),
      ...(next === node ? await this.#checkRest(state) : []),
    ];
  }

  /** I9. */
  #checkWrites(node: Node<World>, next: Node<World>): string[] {
    const isWrite = node.state.process.todo[0]?.kind === 'write';
    const writes = next === node ? 0 : (this.#writesToRest.get(next) ?? 0) + (isWrite ? 1 : 0);
    this.#writesToRest.set(node, writes);
    return writes > maxWrites ? [`takes ${writes} writes to come to rest (I9)`] : [];
  }

  /** I4, I5. */
  #checkCleanup(state: KernelState): string[] {
    if (this.#cleaned.has(state.id)) return [];
    this.#cleaned.add(state.id);
    const kernel = state.kernel.copy();
    const before = printForeign(kernel).join('\n');
    for (const transaction of this.#product.planCleanup(state.reading).transactions) {
      const isRefused = isToolRefusing(() => {
        kernel.write(transaction);
      });
      if (isRefused) return [`clean-up is refused: ${transaction.input} (I4)`];
    }
    const left = printOurs(kernel);
    return [
      ...(left.length === 0 ? [] : [`clean-up leaves ${left[0] ?? ''} (I4)`]),
      ...(printForeign(kernel).join('\n') === before ? [] : ['clean-up changes what is not ours (I5)']),
    ];
  }

  /** I4, I7, I10, I11, and the table of ways. */
  async #checkRest(state: World): Promise<string[]> {
    const lost = loseApi(state);
    const forgetful = {
      ...state,
      process: { ...state.process, memory: { ...emptyState, endpoints: state.saved } },
    };
    // What only a lost API had said is nothing that a new process could know.
    const isWordLost = state.api?.isAnswered === false;
    const { isRefused } = await syncProxy(state, state.proxy, this.#kernels);
    return [
      ...findWrongEnd(state),
      ...(isRefused ? ['kube-proxy is still refused (I11)'] : []),
      ...((await this.#isInSync(lost)) ? [] : ['the loss of the API leads to a write (I10)']),
      ...(isWordLost || (await this.#isInSync(forgetful))
        ? []
        : ['a new process finds something to write (I7, I4)']),
    ];
  }

  async #isInSync(state: World): Promise<boolean> {
    return (await this.#looks.look(state)).transactions.length === 0;
  }
}

const printAllForeign = oncePerKernel(({ kernel }) => printForeign(kernel).join('\n'));

/** I5, I8. */
function checkStep(before: World, after: World): string[] {
  if (before.kernel === after.kernel) return [];
  const isWrite = before.process.todo[0]?.kind === 'write';
  const isSame = printAllForeign(before.kernel) === printAllForeign(after.kernel);
  return [
    ...(isWrite ? [] : ['a look changes the kernel (I8)']),
    ...(isSame ? [] : ['a write changes what is not ours (I5)']),
  ];
}

/** I1, I5, I6. */
function checkTodo({ process: { todo, hasLooked } }: World): string[] {
  const transactions = todo.flatMap((effect) => (effect.kind === 'write' ? [effect.transaction] : []));
  const targets = transactions.map(({ family, dialect }) => `${family} ${dialect}`);
  return [
    ...(todo.length > 0 && !hasLooked ? ['a process writes before its first look (I1)'] : []),
    ...(new Set(targets).size === targets.length
      ? []
      : [`two transactions for one of ${targets.join(', ')} (I6)`]),
    ...transactions.flatMap(findBreaches).map((breach) => `${breach} (I5)`),
  ];
}
