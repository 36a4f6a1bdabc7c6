import { type StepKey, type Watch } from '../cache/watch.ts';
import { type Known, type Objects, type World } from '../cache/world.ts';
import { type Regarding } from '../../lib/telemetry/regarding.ts';
import { type Step, type Write } from './step.ts';

/** What is done for one kind of keys. */
export interface Kind {
  /** Of its keys, and of the objects that it writes, unless a write says otherwise. */
  readonly name: string;
  /** Each of these objects has a key of the kind. */
  readonly source: keyof Objects;
  /** What its keys depend on. */
  readonly watches: readonly Watch[];
  /** The one next step of a key. Pure; it costs what the key's own objects and its pool cost, whatever else there is. */
  readonly next: (key: string, world: World) => Step;
  /** All keys, where they are not those of its objects. */
  readonly listKeys?: (known: Known) => Iterable<string>;
  /** What its events are about, as they name it; null where they are about nothing. */
  readonly subject: Pick<Regarding, 'apiVersion' | 'kind'> | null;
  /** The namespace that a key is of, as each has its turns beside the others. Unless given, the one in the key. */
  readonly findTenant?: (key: string, known: Known) => string;
  /**
   * Where to read what a step has written, if no list shows it; null for a step's own object. What its next step knows of that is as
   * old as the version which that step names, and the API refuses an old one. Unless given, no step writes anything else.
   */
  readonly findReadPath?: (write: Write) => string | null;
  /** Its steps may be the same again, at any pace. */
  readonly mayRepeat?: true;
}

/** Kinds whose keys have their turns beside each other. They begin when all that they watch is known. */
export interface KindGroup {
  readonly kinds: readonly Kind[];
  /** For how long what keys wait for is gathered before they are looked at. */
  readonly wakeMs: number;
}

/** A key as the queue has it: `Service/NAMESPACE/NAME`, `VirtualIP/NAME`. */
export function formatKey({ kind, key }: StepKey): string {
  return `${kind}/${key}`;
}

/** The key of such a text. */
export function parseKey(text: string): StepKey {
  const at = text.indexOf('/');
  return { kind: text.slice(0, at), key: text.slice(at + 1) };
}

/** All keys of some kinds. */
export function listKeys(kinds: readonly Kind[], known: Known): StepKey[] {
  return kinds.flatMap(({ name: kind, source, listKeys: list }) =>
    [...(list?.(known) ?? known[source].keys())].map((key) => ({ kind, key })),
  );
}
