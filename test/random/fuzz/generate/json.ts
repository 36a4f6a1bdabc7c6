import { edgeNumbers, addressTexts, makeHostileText } from '../engine/hostile.ts';
import { type Random } from '../../../support/random/random.ts';

/** What stands where something else should. */
const values: readonly ((random: Random) => unknown)[] = [
  () => null,
  (random) => random.chance(50),
  (random) => Number(random.pick(edgeNumbers)) || -0.5,
  (random) => random.pick(addressTexts),
  makeHostileText,
  () => [],
  // As JSON.parse reads it: an own key, no prototype.
  () => JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1}') as unknown,
  (random) => Array.from({ length: 3 }, () => makeHostileText(random)),
  () => ({}),
];

const makeValue = (random: Random): unknown => random.pick(values)(random);

/** A JSON value with one to three faults somewhere in it: a part gone, doubled, or something else in its place. */
export function mutateJson(random: Random, value: unknown): unknown {
  let mutated = value;
  for (let faults = 1 + random.below(3); faults > 0; faults -= 1)
    mutated = changeSomewhere(random, mutated, 0);
  return mutated;
}

/** Only the way to the fault is copied. */
function changeSomewhere(random: Random, value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null || random.chance(depth === 0 ? 1 : 8))
    return makeValue(random);
  if (Array.isArray(value)) return changeList(random, value as readonly unknown[], depth);
  const entries = Object.entries(value);
  if (entries.length === 0) return { [makeHostileText(random)]: makeValue(random) };
  const at = random.below(entries.length);
  const [name, inner] = (entries[at] ?? ['', null]) as readonly [string, unknown];
  if (random.chance(10)) return Object.fromEntries(entries.toSpliced(at, 1));
  if (random.chance(5)) return Object.fromEntries(entries.with(at, [makeHostileText(random), inner]));
  return Object.fromEntries(entries.with(at, [name, changeSomewhere(random, inner, depth + 1)]));
}

function changeList(random: Random, list: readonly unknown[], depth: number): unknown {
  if (list.length === 0) return [makeValue(random)];
  const at = random.below(list.length);
  if (random.chance(10)) return list.toSpliced(at, 1);
  if (random.chance(10)) return list.toSpliced(at, 0, list[random.below(list.length)]);
  return list.with(at, changeSomewhere(random, list[at], depth + 1));
}
