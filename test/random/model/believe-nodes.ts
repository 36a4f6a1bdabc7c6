/** For broken controllers: worlds that are said to be otherwise than they are. */
import type { CandidateNodes } from '../../../controller/cache/nodes.ts';
import type { ClusterView } from '../../../controller/cache/cache.ts';
import type { Step } from '../../../controller/step.ts';

/** A step that is decided from another world, and that waits for that one, too. */
export function believe(
  next: (world: ClusterView) => Step,
  make: (world: ClusterView) => ClusterView,
  world: ClusterView,
): Step {
  const step = next(make(world));
  if (step.does !== 'wait' || step.isStill === undefined) return step;
  const { isStill } = step;
  return { ...step, isStill: (later) => isStill(make(later)) };
}

export function mapValues<V>(map: ReadonlyMap<string, V>, make: (value: V) => V): Map<string, V> {
  return new Map([...map].map(([key, value]) => [key, make(value)]));
}

/** The same world, whose nodes answer what `said` has, and the rest as they would. */
export function believeNodes(world: ClusterView, said: Partial<CandidateNodes>): ClusterView {
  const believed = new Map<unknown, unknown>(Object.entries(said));
  const candidates = new Proxy(world.candidates, {
    get: (target, name) => {
      const own: unknown = Reflect.get(target, name, target);
      return believed.get(name) ?? (typeof own === 'function' ? (own.bind(target) as unknown) : own);
    },
  });
  return { ...world, candidates };
}
