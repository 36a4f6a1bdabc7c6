/** For broken controllers: nodes that are said to have done more than they have. */
import type { CandidateNodes } from '../../../controller/cache/nodes.ts';
import type { ClusterView } from '../../../controller/cache/cache.ts';

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
