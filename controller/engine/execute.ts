import * as z from 'zod/mini';
import { type TokenQueue } from '../../lib/control/token-queue.ts';
import { version } from '../../lib/kubernetes/api-object.ts';
import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { type WriteAnswer } from '../../lib/kubernetes/write-object.ts';
import { type Confirmation, type Write } from './step.ts';

/** What executing takes. */
export interface ExecuteDependencies {
  readonly client: ObjectClient;
  /** How many writes, and reads between them, there may be for all keys together (S7). */
  readonly pace: TokenQueue;
  /** How long a write may take that begins now; 0 for one that may not begin. See `LeaderElection`. */
  readonly writeMs: () => number;
}

/** What became of a step's write, or of a read before it. */
export interface Execution {
  readonly result:
    /** It is done. */
    | 'done'
    /** Somebody else was first. */
    | 'stale'
    /** This process does not lead any more: nothing was done. */
    | 'late'
    /** The API was not reached, or its answer says nothing: it may be done. */
    | 'unknown'
    /** The API does not take it. */
    | 'refused';
  /** What was answered, as a sentence that can go on. */
  readonly words: string;
  /** The version that the object has now; null where it is gone or nothing was written. */
  readonly version: string | null;
}

const late: Execution = { result: 'late', words: 'this controller does not lead', version: null };

/** Makes a write as soon as its turn has come, unless what it rests on has changed. Never rejects. */
export async function execute(
  { client, pace, writeMs }: ExecuteDependencies,
  write: Write,
): Promise<Execution> {
  await pace.take();
  for (const confirmation of write.confirm) {
    if (writeMs() === 0) return late;
    const refusal = await confirm(client, confirmation, writeMs());
    if (refusal !== null) return refusal;
  }
  // Reading took time: that nobody else leads has to be true now.
  const limitMs = writeMs();
  if (limitMs === 0) return late;
  const { method, path, body, isStrategic = false } = write;
  const answer = await client.write({ title: nameWrite(write), method, path, body, isStrategic }, limitMs);
  return toResult(write, answer);
}

const schema = z.object({ metadata: z.object({ resourceVersion: version }) });

/** The version that an object has at the API, as soon as its turn has come: `done` with null where there is none. Never rejects. */
export async function readVersion(
  { client, pace, writeMs }: ExecuteDependencies,
  path: string,
): Promise<Execution> {
  await pace.take();
  const limitMs = writeMs();
  return limitMs === 0 ? late : await askVersion(client, path, limitMs);
}

/** Null where the object is as it was read. */
async function confirm(
  client: ObjectClient,
  { path, version }: Confirmation,
  limitMs: number,
): Promise<Execution | null> {
  const found = await askVersion(client, path, limitMs);
  if (found.result !== 'done') return found;
  return found.version === version ? null : { result: 'stale', words: `${path} has changed`, version: null };
}

async function askVersion(client: ObjectClient, path: string, limitMs: number): Promise<Execution> {
  const answer = await client.read({ title: `reading ${path}`, path, schema }, limitMs);
  if (answer.outcome === 'forbidden' || answer.outcome === 'unreachable')
    return { result: outcomeToResult[answer.outcome], words: answer.words, version: null };
  const version = answer.outcome === 'gone' ? null : answer.object.metadata.resourceVersion;
  return { result: 'done', words: `${path} is read`, version };
}

const methodToVerb = { POST: 'creating', PATCH: 'changing', DELETE: 'deleting' } as const;

function nameWrite({ method, kind, key }: Write): string {
  return `${methodToVerb[method]} ${kind} ${key}`;
}

const outcomeToResult = {
  taken: 'done',
  conflict: 'stale',
  exists: 'stale',
  gone: 'stale',
  forbidden: 'refused',
  refused: 'refused',
  unreachable: 'unknown',
} as const satisfies Record<WriteAnswer['outcome'], Execution['result']>;

function toResult({ method }: Write, { outcome, words, version }: WriteAnswer): Execution {
  const isDeleted = method === 'DELETE' && outcome === 'gone';
  return { result: isDeleted ? 'done' : outcomeToResult[outcome], words, version };
}
