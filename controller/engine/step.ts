/**
 * What is next for one object: one write, with the versions that it rests on, or what it waits for. There is no state between
 * two writes that a restart would not find again (ADR 21).
 */
import { type StepKey, type WaitsFor, type Watch } from '../cache/watch.ts';
import { type World, type WrittenKind } from '../cache/world.ts';
import { type Regarding } from '../../lib/telemetry/regarding.ts';
import { type Known, type Objects } from '../cache/known.ts';

/** What `JSON.stringify` takes. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/**
 * One request to the API. Its answer, when there is one, has the new version of the object; the key is due again once the
 * informer has seen that version or a later one. 409 means that somebody else was first: the informer hears of it, then the key is due
 * again. 404 of a DELETE means that it is done.
 */
export interface Write {
  /** POST creates. PATCH is `application/merge-patch+json`. DELETE has DeleteOptions as its body. */
  readonly method: 'POST' | 'PATCH' | 'DELETE';
  /**
   * PATCH is `application/strategic-merge-patch+json` instead: conditions are merged by their types. It has the uid that was read, too.
   */
  readonly isStrategic?: true;
  /** With `/status` where that is what is written. */
  readonly path: string;
  /** PATCH: `metadata.resourceVersion` is the version that was read. DELETE: `preconditions` has it, and the uid. */
  readonly body: Json;
  /** Whose version the answer has, and its key in the informer. It need not be the object that the step is for. */
  readonly kind: WrittenKind;
  readonly key: string;
  /**
   * Objects that are read again, at the API, right before this write: it is not made unless all of them have these versions. So a
   * controller that no longer leads, and knows an old state of one object, undoes nothing of another.
   */
  readonly confirm: readonly Confirmation[];
  /** The pool whose address it gives; left out where it gives none. */
  readonly givesOf?: string;
}

/** An object as it was read. */
export interface Confirmation {
  readonly path: string;
  /** Null: it is not there (404). */
  readonly version: string | null;
}

/** An Event for the object of the key: recorded when the write is done. */
export interface StepEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: StepReason;
  readonly message: string;
}

/** Of events. Published: docs/events.md lists them. */
export type StepReason =
  | 'AddressAllocated'
  | 'AddressReady'
  | 'AddressReleased'
  | 'AddressInUse'
  | 'AddressKept'
  | 'NoAddress'
  | 'NotAsAsked'
  | 'PoolRefused'
  | 'NodeReportsAddress'
  | 'GateTimedOut'
  | 'PortNotSupported'
  | 'DeviceReady'
  | 'DeviceFailed'
  | 'DeviceRefused';

/** The one next step. */
export type Step =
  | {
      readonly does: 'write';
      readonly write: Write;
      readonly event: StepEvent | null;
      /** It only tells people what is so anyway: others' steps go first. */
      readonly isLowPriority?: true;
      /** It lets this pool go: not while an address of the pool may be given that no list shows yet. */
      readonly endsPool?: string;
    }
  | {
      readonly does: 'wait';
      readonly waitsFor: WaitsFor;
      /** For logs and people. */
      readonly why: string;
      /**
       * A date, in milliseconds since 1970: then the key is due anyway. It is reckoned from `World.nowMs`: the key waits for the
       * difference by a clock that does not jump. Null: never by itself.
       */
      readonly untilMs: number | null;
    }
  | { readonly does: 'nothing' };

/** Nothing is wanted that is not so. */
export const nothing: Step = { does: 'nothing' };

/** A step that writes. */
export function toStep(write: Write, event: StepEvent | null = null): Extract<Step, { does: 'write' }> {
  return { does: 'write', write, event };
}

/** Objects as a patch has them: without what is undefined. */
export function toJson(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}

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
