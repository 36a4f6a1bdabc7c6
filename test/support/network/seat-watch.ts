import { readFileSync } from 'node:fs';
import { type ClientHttp2Session, connect, type SessionOptions } from 'node:http2';
import { type TLSSocket } from 'node:tls';
import { nameError } from './seat-connects.ts';
import type { Identity } from './identity.ts';
import type { WatchReport, WatchTask, WriteTask } from './seat-tasks.ts';

/**
 * As client-go has them: a connection on which nothing came for so long is asked for a sign of life, and given up
 * without one. Source: k8s.io/apimachinery/pkg/util/net, readIdleTimeoutSeconds and pingTimeoutSeconds.
 */
const readIdleMs = 30_000;
const pingLimitMs = 15_000;

/** net.Dialer of client-go. */
const dialLimitMs = 30_000;

const retryMs = 100;

/** Before anything is measured, whatever hangs is tried again, and given up after so long in all. */
const firstDialLimitMs = 3000;
const beginLimitMs = 60_000;

/** A write that does not succeed within this goes to the next apiserver. */
const writeLimitMs = 500;

/** Where the ConfigMaps are. */
export const collection = '/api/v1/namespaces/default/configmaps';

/**
 * Watches until the time is over, which begins with its first event, and connects again whenever the watch ends. Prints a line
 * at that event; a report without any is of a watch that did not begin within a minute.
 */
export async function watchObject(task: WatchTask): Promise<WatchReport> {
  let started = performance.now();
  const eventsAtMs: number[] = [];
  const apiservers: string[] = [];
  const errors: Record<string, number> = {};
  const over = new AbortController();
  const onEnd = () => {
    over.abort();
  };
  let end = setTimeout(onEnd, beginLimitMs);
  const onEvent = (apiserver: string) => {
    if (apiservers.length === 0) {
      // Wherever it begins elsewhere it is no part of what is measured.
      if (task.apiserver !== undefined && apiserver !== task.apiserver) return false;
      started = performance.now();
      clearTimeout(end);
      end = setTimeout(onEnd, task.durationMs);
      process.stdout.write('"watching"\n');
    }
    if (apiservers.at(-1) !== apiserver) apiservers.push(apiserver);
    eventsAtMs.push(performance.now() - started);
    return true;
  };
  while (!over.signal.aborted) {
    const limitMs = apiservers.length === 0 ? firstDialLimitMs : dialLimitMs;
    await watchOnce(task, { limitMs, over: over.signal }, onEvent).catch((error: unknown) => {
      const name = nameError(error);
      errors[name] = (errors[name] ?? 0) + 1;
    });
    await new Promise((resolve) => setTimeout(resolve, apiservers.length === 0 ? 0 : retryMs));
  }
  const endedAtMs = performance.now() - started;
  return { startedAt: performance.timeOrigin + started, eventsAtMs, endedAtMs, apiservers, errors };
}

/** Changes the object on schedule, at the apiserver that took the last change, else at the next one. */
export async function writeObject(task: WriteTask): Promise<{ written: number }> {
  const over = performance.now() + task.durationMs;
  let current = 0;
  let written = 0;
  let session: ClientHttp2Session | null = null;
  for (let tick = 0; performance.now() < over; tick += 1) {
    const host = task.hosts[current % task.hosts.length] ?? '';
    session ??= open(host, task.port, task.identity);
    try {
      await patch(session, `${collection}/${task.object}`, { data: { tick: String(tick) } });
      written += 1;
      await new Promise((resolve) => setTimeout(resolve, task.intervalMs));
    } catch {
      session.destroy();
      session = null;
      current += 1;
    }
  }
  session?.destroy();
  return { written };
}

/** One connection with one watch; ends when either does, when it is refused by `onEvent`, or when time is over. */
function watchOnce(
  { host, port, identity, object }: WatchTask,
  { limitMs, over }: { limitMs: number; over: AbortSignal },
  onEvent: (apiserver: string) => boolean,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const session = open(host, port, identity);
    let idle = setTimeout(() => {
      session.destroy(new Error('dial timeout'));
    }, limitMs);
    const onOver = () => {
      session.destroy();
    };
    over.addEventListener('abort', onOver);
    const ask = () => {
      const limit = setTimeout(() => {
        session.destroy(new Error('ping timeout'));
      }, pingLimitMs);
      const forget = () => {
        clearTimeout(limit);
      };
      session.ping(forget);
      session.once('close', forget);
    };
    const rest = () => {
      clearTimeout(idle);
      idle = setTimeout(ask, readIdleMs);
    };
    session.on('connect', rest).on('error', reject);
    session.on('close', () => {
      clearTimeout(idle);
      over.removeEventListener('abort', onOver);
      resolve();
    });
    const path = `${collection}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3D${object}`;
    const stream = session.request({ ':path': path });
    stream.on('data', () => {
      rest();
      const apiserver = String((session.socket as TLSSocket).getPeerCertificate().subject.CN);
      if (!onEvent(apiserver)) session.destroy();
    });
    stream.on('error', reject).on('close', () => {
      session.destroy();
    });
  });
}

function patch(session: ClientHttp2Session, path: string, body: object): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new Error('timeout'));
    }, writeLimitMs);
    session.on('error', reject);
    const stream = session.request({
      ':method': 'PATCH',
      ':path': path,
      'content-type': 'application/merge-patch+json',
    });
    stream.on('response', ({ ':status': status }) => {
      if (status === 200) resolve();
      else reject(new Error(`status ${String(status)}`));
    });
    stream.on('error', reject).on('close', () => {
      clearTimeout(timer);
      session.off('error', reject);
      // Without an answer; with one this comes too late.
      reject(new Error('closed'));
    });
    stream.resume().end(JSON.stringify(body));
  });
}

/** An HTTP/2 session with an apiserver. Its errors are the streams' too, and harm nobody who does not listen. */
export function open(
  host: string,
  port: number,
  identity: Identity,
  options: SessionOptions = {},
): ClientHttp2Session {
  const authority = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const session = connect(authority, {
    ...options,
    ca: readFileSync(identity.authority),
    cert: readFileSync(identity.certificate),
    key: readFileSync(identity.key),
  });
  session.on('error', () => undefined);
  return session;
}
