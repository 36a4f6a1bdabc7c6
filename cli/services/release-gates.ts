/**
 * Opens readiness gates that no controller opens any more.
 *
 * Goal: pods that wait for vipnat become ready without it.
 * Tension: pods change, end and open meanwhile, and the API has other clients.
 * Compromise: one write after another, each for the pod as it was read. A write that came too late is made again for the pod as it is now. A
 * condition is set to True, and never to False.
 */
import { backOff } from '../../lib/control/backoff.ts';
import { type Clock, sleep } from '../../lib/control/clock.ts';
import { TokenQueue } from '../../lib/control/token-queue.ts';
import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { type Resource } from '../../lib/kubernetes/resources.ts';
import { type WriteAnswer } from '../../lib/kubernetes/write-object.ts';
import { listClosedGates, type Opening, toOpeningWrite } from '../../lib/services/pod-gates.ts';
import { type Pod, toPodResource } from '../../lib/services/pods.ts';

/** What became of a pod's gates. `open`: another program was first. `gone`: the pod is gone, or ends. `left`: they are not open. */
export interface Release {
  /** `NAMESPACE/NAME`. */
  readonly pod: string;
  /** The types that were not open. */
  readonly gates: readonly string[];
  readonly outcome: 'opened' | 'open' | 'gone' | 'left';
  /** Of gates that are left: why, in a clause. */
  readonly why: string | null;
}

/** What opening takes. */
export interface ReleasePorts {
  readonly client: ObjectClient;
  readonly clock: Clock;
  /** Told of each pod when it is done. */
  readonly onReleased: (release: Release) => void;
}

/** Published: docs/services-reference.md has a row for the reason. */
const words = { reason: 'Released', message: 'vipnat services release-gates opened the gate.' } as const;

/** 20 writes a second: the controller makes no more. */
const pace = { capacity: 1, refillMs: 50 };

/** An apiserver answers in milliseconds. */
const limitMs = 5000;

/** Kubelets write a pod's status several times while it starts; an apiserver that restarts is back within these pauses. */
const maxTries = 6;
const firstPauseMs = 250;
const maxPauseMs = 4000;

/** The pods that wait for one of these gates, or will: those of all namespaces, or of one. Pods that end do not wait. */
export function selectClosed(types: ReadonlySet<string>, namespace: string | null): Resource<Pod> {
  const all = toPodResource(types);
  const path = namespace === null ? all.path : all.path.replace(/pods$/, `namespaces/${namespace}/pods`);
  return { ...all, path, isKept: (pod) => isClosed(pod, types) };
}

/** What is said of gates that are opened at a date. */
export function toOpening(date: Date): Opening {
  return { ...words, at: `${date.toISOString().slice(0, 19)}Z` };
}

/**
 * Opens the gates of these pods. Never rejects. If the API does not answer, the pods that are still to come are left as they are.
 */
export async function releaseGates(
  pods: readonly Pod[],
  types: ReadonlySet<string>,
  ports: ReleasePorts,
): Promise<readonly Release[]> {
  const queue = new TokenQueue(pace, ports.clock);
  const releases: Release[] = [];
  let away: string | null = null;
  for (const pod of pods) {
    const end: End = away === null ? await openGates(pod, types, { ...ports, queue }) : toLeft(away);
    if (end.isAway === true) away = end.why;
    const { outcome, why } = end;
    const gates = listClosedGates(pod, types);
    const release = { pod: `${pod.metadata.namespace}/${pod.metadata.name}`, gates, outcome, why };
    releases.push(release);
    ports.onReleased(release);
  }
  return releases;
}

/** How it ended for a pod. */
type End = Pick<Release, 'outcome' | 'why'> & { readonly isAway?: boolean };

function toLeft(why: string): End {
  return { outcome: 'left', why };
}

async function openGates(
  read: Pod,
  types: ReadonlySet<string>,
  { client, clock, queue }: ReleasePorts & { readonly queue: TokenQueue },
): Promise<End> {
  let pod = read;
  let last = '';
  let isAway = false;
  for (let tries = 0; tries < maxTries; tries += 1) {
    if (tries > 0) await sleep(clock, backOff(tries - 1, firstPauseMs, maxPauseMs));
    await queue.take();
    // An answer that was lost may have been a yes: then the version is another one, and the gate is found open.
    const write = toOpeningWrite(pod, listClosedGates(pod, types), toOpening(clock.date()));
    const answer = await client.write(write, limitMs);
    const end = toEnd(answer);
    if (end !== null) return end;
    const now = await readPod(pod, types, client);
    [last, isAway] = [answer.words, answer.outcome === 'unreachable' && now === null];
    if (now === null) continue;
    if ('outcome' in now) return now;
    pod = now;
  }
  return { ...toLeft(last), isAway };
}

/** Null: it is to be tried again. */
function toEnd({ outcome, words: why }: WriteAnswer): End | null {
  if (outcome === 'taken') return { outcome: 'opened', why: null };
  if (outcome === 'gone') return { outcome: 'gone', why: null };
  return outcome === 'conflict' || outcome === 'unreachable' ? null : toLeft(why);
}

/** The pod as it is now, or how it ended; null where the API does not say. */
async function readPod(
  { metadata: { namespace, name, uid } }: Pod,
  types: ReadonlySet<string>,
  client: ObjectClient,
): Promise<Pod | End | null> {
  const title = `reading Pod ${namespace}/${name}`;
  const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
  const answer = await client.read({ title, path, schema: toPodResource(types).schema }, limitMs);
  if (answer.outcome === 'unreachable') return null;
  if (answer.outcome === 'forbidden') return toLeft(answer.words);
  const pod = answer.outcome === 'found' ? answer.object : null;
  if (pod?.metadata.uid !== uid || isEnding(pod)) return { outcome: 'gone', why: null };
  return listClosedGates(pod, types).length === 0 ? { outcome: 'open', why: null } : pod;
}

function isEnding({ metadata }: Pod): boolean {
  return typeof metadata.deletionTimestamp === 'string';
}

function isClosed(pod: Pod, types: ReadonlySet<string>): boolean {
  return !isEnding(pod) && listClosedGates(pod, types).length > 0;
}
