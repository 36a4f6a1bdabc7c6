import { makePool, makeNode, type Inventory, toServiceKey, makeWorld } from './service-objects.ts';
import type { StepKey } from '../../../controller/cache/known.ts';
import type { Kind, Step, Write } from '../../../controller/step.ts';
import type { ClusterView } from '../../../controller/cache/cache.ts';
import { kinds } from '../../../controller/leadership.ts';

/** One address, and one node. */
const usual = { pools: [makePool('pool', { addresses: ['10.0.9.10'] })], nodes: [makeNode('node-1')] };

/** The next step of a key, `apps/a` where none is given, in a world with one address and one node, unless it has others. */
export function decide(inventory: Inventory, key: StepKey = toServiceKey('apps/a')): Step {
  return nextStep(key, makeWorld({ ...usual, ...inventory }));
}

/** What a step writes. */
export function getWrite(step: Step): Write {
  if (step.does !== 'write') throw new TypeError(`no write: ${JSON.stringify(step)}`);
  return step.write;
}

/** The kind of some keys. */
export function getKind(name: string): Kind {
  const kind = kinds.find((each) => each.name === name);
  if (kind === undefined) throw new TypeError(`no kind: ${name}`);
  return kind;
}

/** The one next step of a key. Pure. */
export function nextStep({ kind, key }: StepKey, view: ClusterView): Step {
  return getKind(kind).next(key, view);
}
