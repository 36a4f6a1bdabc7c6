import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setImmediate as yieldToSockets } from 'node:timers/promises';
import { pickCounter } from './netstat.ts';
import { OwnTime } from './own-time.ts';
import type { ConnectReport, ConnectTask } from './seat-tasks.ts';

/** A SYN that is lost is sent again after a second: what is not there by then, a person notices. */
const defaultLimitMs = 1000;

/** Whatever takes longer has lost its SYN. */
const defaultSlowMs = 1000;

/** After so long without a failure there are none to come. */
const defaultQuietMs = 2500;

/** The first byte of a TLS record that is part of a handshake; an alert has another. Source: RFC 8446, 5.1. */
const handshakeType = 0x16;

/**
 * Each connection is from the next local port: left to itself the kernel soon takes one again whose connection timed
 * out, and the VIP's holder still has an entry for it that leads to the dead apiserver. At 500 a second the
 * same port comes again when that entry, and whatever waits after a close, is gone (120 s). Other programs have to
 * keep to the ports above (net.ipv4.ip_local_port_range).
 */
const [firstPort, lastPort] = [1024, 60_999];
let nextPort = firstPort;

/**
 * Connects on schedule, whatever becomes of the ones before: an outage must not slow down its own measurement. While this process stands still,
 * so do the schedule and all limits. `startedAt` and `atMs` are by the machine's clock.
 */
export async function connectAtRate(task: ConnectTask, settled: AbortSignal): Promise<ConnectReport> {
  const { perSecond, durationMs, slowMs = defaultSlowMs, firstLocalPort = nextPort } = task;
  const { quietMs = defaultQuietMs } = task;
  nextPort = firstLocalPort;
  const own = new OwnTime();
  const [started, ownStarted] = [performance.now(), own.now()];
  const resentBefore = countResentSyns();
  let seenAt = -Infinity;
  // A connection that hangs is seen at its limit only; the first one is the oldest.
  const isHanging = (now: number) => now - (pending.values().next().value ?? now) > slowMs;
  const isQuiet = () => quietMs === 0 || (own.now() - seenAt >= quietMs && !isHanging(own.now()));
  const slowAtMs: number[] = [];
  const tookMs: number[] = [];
  const failures: ConnectReport['failures'] = [];
  const apiservers: Record<string, number> = {};
  const pending = new Map<Promise<void>, number>();
  const count = (perSecond * durationMs) / 1000;
  let sent = 0;
  for (; sent < count && !(settled.aborted && isQuiet()); sent += 1) {
    const waitMs = (sent * 1000) / perSecond - (own.now() - ownStarted);
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    // Answers that came are read before the next ones are asked for: otherwise a burst makes all that wait late.
    else await yieldToSockets();
    const atMs = performance.now() - started;
    const ownAt = own.now();
    const attempt = tryToConnect(task, own).then((outcome) => {
      const isGood = 'apiserver' in outcome;
      if (isGood) apiservers[outcome.apiserver] = (apiservers[outcome.apiserver] ?? 0) + 1;
      const took = own.now() - ownAt;
      if (isGood) tookMs.push(Math.round(took * 100) / 100);
      if (isGood && took <= slowMs) return;
      seenAt = own.now();
      if (isGood) slowAtMs.push(atMs);
      else failures.push({ atMs, ...outcome });
    });
    pending.set(attempt, ownAt);
    void attempt.then(() => pending.delete(attempt));
  }
  const report = { startedAt: performance.timeOrigin + started, sent, isQuiet: isQuiet() };
  await Promise.all(pending.keys());
  own.close();
  return {
    ...{ ...report, apiservers, resentSyns: countResentSyns() - resentBefore },
    ...(task.isTimed === true ? { tookMs } : {}),
    slowAtMs: slowAtMs.sort((a, b) => a - b),
    failures: failures.sort((a, b) => a.atMs - b.atMs),
  };
}

/** Of all clients at this place, since it is there. */
function countResentSyns(): number {
  return pickCounter(readFileSync('/proc/self/net/netstat', 'utf8'), 'TCPSynRetrans');
}

/** The system's word for what went wrong, else the message. */
export function nameError(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}

/** What went wrong, and whether there was a TCP connection by then. */
interface Failure {
  readonly error: string;
  readonly isConnected: boolean;
}

/** Whether the local port is another connection's of this host: such a connection never left it, and needs another port. */
export const isPortTaken = (error: unknown) => ['EADDRINUSE', 'EADDRNOTAVAIL'].includes(nameError(error));

/** Answers who answered: nobody by name, where none is asked for. Never rejects. */
function tryToConnect(
  task: ConnectTask,
  own: OwnTime,
  portsLeft = 100,
): Promise<Failure | { apiserver: string }> {
  const { host, port, from, limitMs = defaultLimitMs } = task;
  const question = toQuestion(task);
  return new Promise((resolve) => {
    let isConnected = false;
    const succeed = (apiserver: string) => {
      // Thousands a second would fill the connection table with closed ones: a reset leaves nothing behind.
      if (task.isNamed === true) socket.resetAndDestroy();
      else socket.end();
      resolve({ apiserver });
    };
    const fail = (error: unknown) => {
      if (isPortTaken(error) && portsLeft > 1) resolve(tryToConnect(task, own, portsLeft - 1));
      else resolve({ error: nameError(error), isConnected });
    };
    const place = { localPort: takePort(), ...(from === undefined ? {} : { localAddress: from }) };
    const socket = connect({ host, port, ...place }, () => {
      isConnected = true;
      if (question === null) succeed('');
      else socket.write(question);
    });
    const cancel = own.schedule(limitMs, () => socket.destroy(new Error('timeout')));
    socket.once('data', (bytes) => {
      if (task.isNamed === true) succeed(readName(bytes));
      else if (bytes[0] === handshakeType) succeed('');
      else socket.destroy(new Error('no handshake'));
    });
    socket.on('error', fail).on('close', () => {
      cancel();
      fail(new Error('closed'));
    });
    // Nothing is expected, but the other side's end is seen only by somebody who reads.
    socket.resume();
  });
}

/** What makes an apiserver answer; null where its host's answer is enough. */
function toQuestion({ hello, isNamed }: ConnectTask): Buffer | null {
  if (isNamed === true) return Buffer.from('echo\n');
  return hello === undefined ? null : Buffer.from(hello, 'base64');
}

/** The first line, see apiserver.ts. */
function readName(bytes: Buffer): string {
  return bytes.toString('latin1').split('\n', 1)[0] ?? '';
}

/** The next local port, see above. */
export function takePort(): number {
  const port = nextPort;
  nextPort = port === lastPort ? firstPort : port + 1;
  return port;
}
