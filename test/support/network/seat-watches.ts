import { setTimeout as sleep } from 'node:timers/promises';
import { type ClientHttp2Session } from 'node:http2';
import { type TLSSocket } from 'node:tls';
import { OwnTime } from './own-time.ts';
import { nameError } from './seat-connects.ts';
import { collection, open } from './seat-watch.ts';
import { type Identity } from './identity.ts';

/** Watches of a ConfigMap in namespace `default`, each on a connection of its own, which ends once and for all. */
export interface WatchesTask {
  readonly kind: 'watches';
  readonly host: string;
  readonly port: number;
  readonly identity: Identity;
  readonly object: string;
  readonly count: number;
  /** How often each sends something that is not silent. */
  readonly pingIntervalMs: number;
  /** How many of them send nothing until `Seat.speak`, and then all the time. */
  readonly silentCount: number;
  /** The apiservers, by common name, whose watches are waited for by `Seat.settle`. */
  readonly awaited: readonly string[];
  /** At the longest, see `Seat.settle`. */
  readonly durationMs: number;
}

export interface WatchesReport {
  /** When it began, in milliseconds since the epoch. */
  readonly startedAt: number;
  /** The apiserver each was on, and when it knew of its end; null while it did not. */
  readonly watches: readonly {
    readonly apiserver: string;
    readonly isUnresponsive: boolean;
    readonly endedAtMs: number | null;
    /** How it knew: `goaway` is an apiserver's own word that it ends, `closed` an orderly end without it, all else an error; null while it did not. */
    readonly end: string | null;
    /**
     * The longest time that a ping had to wait for its answer, in milliseconds without what the client stood still, until the watch or the
     * time ended; 0 for one that sent none. Of a connection that is lost when the client settles it is 10 s at least.
     */
    readonly silenceMs: number;
  }[];
}

/** One connection with a watch: whose it is, and when its client knew that it needs another one. */
interface Watch {
  readonly session: ClientHttp2Session;
  readonly apiserver: string;
  readonly isUnresponsive: boolean;
  readonly pings: Pings;
  endedAt: number | null;
  end: string | null;
  /** Once it has ended. */
  silenceMs: number | null;
}

/** The pings of one connection, and how they were answered. */
interface Pings {
  stop(): void;
  /** From now on silence counts: what is sent while a connection is made may get no answer. */
  count(): void;
  measureSilence(): number;
  /** Whether one was answered that was sent after a moment, by `own`. */
  isAnsweredSince(moment: number): boolean;
}

/** What this process stands still is nobody's silence. */
const own = new OwnTime();

/** An answer that takes longer never comes. */
const answerLimitMs = 10_000;

const retryMs = 100;
const lookIntervalMs = 5;

/** The answer to the first packet counts; should that one be lost, another comes soon. */
const brokenSilenceMs = 20;

/** Node.js stops asking when 10 are without an answer, and then sends nothing that could be refused. */
const maxOutstandingPings = 1_000_000;

/**
 * Watches until time is over, or after it was told to settle until every awaited watch has ended. Prints a line when every watch had its first event.
 */
export async function watchTogether(
  task: WatchesTask,
  settled: AbortSignal,
  spoken: AbortSignal,
): Promise<WatchesReport> {
  const watches = await Promise.all(
    Array.from({ length: task.count }, (_, index) => begin(task, index < task.silentCount ? spoken : null)),
  );
  const startedAt = Date.now();
  const started = performance.now();
  process.stdout.write('"watching"\n');
  const awaited = watches.filter(({ apiserver }) => task.awaited.includes(apiserver));
  while (performance.now() - started < task.durationMs) {
    if (settled.aborted && awaited.every(({ endedAt }) => endedAt !== null)) break;
    await sleep(lookIntervalMs);
  }
  if (settled.aborted) await hearFrom(watches, task.pingIntervalMs);
  const report = watches.map(({ apiserver, isUnresponsive, endedAt, end, pings, silenceMs }) => ({
    ...{ apiserver, isUnresponsive, end },
    endedAtMs: endedAt === null ? null : endedAt - started,
    silenceMs: silenceMs ?? pings.measureSilence(),
  }));
  for (const { session } of watches) session.destroy();
  return { startedAt, watches: report };
}

/** Waits for another answer to each that goes on and is not silent: a lost connection looks like one that goes on. */
async function hearFrom(watches: readonly Watch[], pingIntervalMs: number): Promise<void> {
  const since = own.now();
  const isMissing = ({ endedAt, isUnresponsive, pings }: Watch) =>
    endedAt === null && !isUnresponsive && !pings.isAnsweredSince(since);
  while (watches.some(isMissing) && own.now() - since < answerLimitMs + pingIntervalMs)
    await sleep(lookIntervalMs);
}

/** One that is silent until a signal, or busy from the beginning. */
async function begin(task: WatchesTask, silence: AbortSignal | null): Promise<Watch> {
  for (;;) {
    const watch = await beginOnce(task, silence).catch(() => null);
    if (watch !== null) return watch;
    await sleep(retryMs);
  }
}

/** Rejects when it ends before its first event. */
function beginOnce(task: WatchesTask, silence: AbortSignal | null): Promise<Watch> {
  const { host, port, identity, object } = task;
  return new Promise((resolve, reject) => {
    const session = open(host, port, identity, { maxOutstandingPings });
    let watch: Watch | null = null;
    const onEnd = (how: string) => {
      if (watch?.endedAt === null) {
        watch.endedAt = performance.now();
        watch.end = how;
        watch.silenceMs = pings.measureSilence();
      }
      reject(new Error('ended'));
    };
    const onError = (error: unknown) => {
      onEnd(nameError(error));
    };
    const pings = startPings(session, task, silence);
    session.on('error', onError).on('goaway', (code: number) => {
      onEnd(code === 0 ? 'goaway' : `goaway with error ${code}`);
    });
    session.on('close', () => {
      pings.stop();
      onEnd('closed');
    });
    const path = `${collection}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3D${object}`;
    const stream = session.request({ ':path': path });
    stream.once('data', () => {
      const apiserver = String((session.socket as TLSSocket).getPeerCertificate().subject.CN);
      const life = { endedAt: null, end: null, silenceMs: null };
      watch = { session, apiserver, isUnresponsive: silence !== null, pings, ...life };
      pings.count();
      resolve(watch);
    });
    stream.resume();
    stream.on('error', onError).on('close', () => {
      onEnd('closed');
      session.destroy();
    });
  });
}

/** At an interval; of a silent one when it may speak, and then all the time. */
function startPings(
  session: ClientHttp2Session,
  { pingIntervalMs }: WatchesTask,
  silence: AbortSignal | null,
): Pings {
  let timer: NodeJS.Timeout | undefined;
  let longestMs = 0;
  let isCounting = false;
  let answered = -Infinity;
  const unanswered = new Set<number>();
  const ping = () => {
    if (session.destroyed) return;
    const sentAt = own.now();
    if (isCounting) unanswered.add(sentAt);
    session.ping((error) => {
      // The end of the connection is an answer to none.
      if (error !== null || !unanswered.delete(sentAt)) return;
      longestMs = Math.max(longestMs, own.now() - sentAt);
      answered = Math.max(answered, sentAt);
    });
  };
  const breakSilence = () => {
    ping();
    timer = setInterval(ping, brokenSilenceMs);
  };
  if (silence === null) timer = setInterval(ping, pingIntervalMs);
  else silence.addEventListener('abort', breakSilence, { once: true });
  return {
    stop() {
      silence?.removeEventListener('abort', breakSilence);
      clearInterval(timer);
    },
    count() {
      isCounting = true;
    },
    measureSilence: () => Math.max(longestMs, ...[...unanswered].map((sentAt) => own.now() - sentAt)),
    isAnsweredSince: (moment) => answered > moment,
  };
}
