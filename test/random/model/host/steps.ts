import { type Transaction } from '../../../../lib/kernel/port.ts';
import { isToolRefusing } from '../../../support/fakes/refusal.ts';
import { type Kernels } from './kernels.ts';
import { type Looks } from './looks.ts';
import { type Product } from './product.ts';
import { type Effect, listEndpoints, toHealthView, toTransactionKey, type World } from './world.ts';

export interface Parts {
  readonly kernels: Kernels;
  readonly looks: Looks;
  readonly product: Product;
}

/** What the process does next, when nobody disturbs it: one effect of the last look, or the next look. */
export async function stepAgent(world: World, parts: Parts): Promise<World> {
  const [effect, ...todo] = world.process.todo;
  if (effect === undefined) return runLook(world, parts.looks);
  if (effect.kind === 'save') {
    return { ...world, saved: effect.endpoints, process: { ...world.process, todo } };
  }
  const { transaction } = effect;
  const { to, isRefused } = await parts.kernels.change(
    world.kernel,
    toTransactionKey(transaction),
    (kernel) =>
      isToolRefusing(() => {
        kernel.write(transaction);
      }),
  );
  // The first transaction that fails ends the write, and the next look comes.
  return { ...world, kernel: to, process: { ...world.process, seen: null, todo: isRefused ? [] : todo } };
}

/** The loop's answer to a death: what the last look saw, with the health of now. Nothing while a write is under way. */
export function answerDeath(world: World, product: Product): World {
  const { seen, memory, todo } = world.process;
  if (seen === null || todo.length > 0) return world;
  const { observation, candidates } = seen;
  const basis = { observation, localRoutes: null, candidates, health: toHealthView(world), memory };
  const assessment = product.assess(basis);
  if (assessment.plan.transactions.length === 0) return world;
  const process = {
    ...world.process,
    memory: assessment.memory,
    todo: listWrites(assessment.plan.transactions),
  };
  return { ...world, process: { ...process, decided: assessment.decisions[0] ?? null } };
}

async function runLook(world: World, looks: Looks): Promise<World> {
  const { memory, observation, candidates, decisions, transactions } = await looks.look(world);
  const known = listEndpoints(memory.endpoints);
  const isSaved = known.length === 0 || known.join() === listEndpoints(world.saved).join();
  const todo: readonly Effect[] = [
    ...(isSaved ? [] : [{ kind: 'save' as const, endpoints: memory.endpoints }]),
    ...listWrites(transactions),
  ];
  const seen = { kernel: world.kernel, observation, candidates };
  const decided = decisions[0] ?? null;
  return { ...world, process: { memory, todo, hasLooked: true, seen, decided } };
}

function listWrites(transactions: readonly Transaction[]): Effect[] {
  return transactions.map((transaction) => ({ kind: 'write', transaction }));
}
