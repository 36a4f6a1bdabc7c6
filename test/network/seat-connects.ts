import { connect } from 'node:net';
import { type ConnectReport, type ConnectTask } from './seat.ts';

/** A SYN that is lost is sent again after a second: what is not there by then, a person notices. */
const defaultLimitMs = 1000;

/** Whatever takes longer has lost its SYN. */
const slowMs = 1000;

/** After so long without a failure there are none to come: longer than any limit, which is when a silent one is seen. */
const quietMs = 2500;

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

/** Connects on schedule, whatever becomes of the ones before: an outage must not slow down its own measurement. */
export async function connectAtRate(task: ConnectTask, settled: AbortSignal): Promise<ConnectReport> {
  const { perSecond, durationMs } = task;
  let seenAt = -Infinity;
  const isQuiet = () => performance.now() - seenAt >= quietMs;
  const started = performance.now();
  const slowAtMs: number[] = [];
  const failures: ConnectReport['failures'] = [];
  const pending = new Set<Promise<void>>();
  const count = (perSecond * durationMs) / 1000;
  let sent = 0;
  for (; sent < count && !(settled.aborted && isQuiet()); sent += 1) {
    const waitMs = (sent * 1000) / perSecond - (performance.now() - started);
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    const atMs = performance.now() - started;
    const attempt = tryToConnect(task).then((failure) => {
      if (failure === null && performance.now() - started - atMs <= slowMs) return;
      seenAt = performance.now();
      if (failure === null) slowAtMs.push(atMs);
      else failures.push({ atMs, ...failure });
    });
    pending.add(attempt);
    void attempt.then(() => pending.delete(attempt));
  }
  const report = { startedAt: performance.timeOrigin + started, sent, isQuiet: isQuiet() };
  await Promise.all(pending);
  return {
    ...report,
    slowAtMs: slowAtMs.sort((a, b) => a - b),
    failures: failures.sort((a, b) => a.atMs - b.atMs),
  };
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

/** Answers null when all went well. Never rejects. */
function tryToConnect({ host, port, hello, limitMs = defaultLimitMs }: ConnectTask): Promise<Failure | null> {
  return new Promise((resolve) => {
    let isConnected = false;
    const succeed = () => {
      socket.end();
      resolve(null);
    };
    const fail = (error: unknown) => {
      resolve({ error: nameError(error), isConnected });
    };
    const socket = connect({ host, port, localPort: takePort() }, () => {
      isConnected = true;
      if (hello === undefined) succeed();
      else socket.write(hello, 'base64');
    });
    const timer = setTimeout(() => socket.destroy(new Error('timeout')), limitMs);
    socket.once('data', (bytes) => {
      if (bytes[0] === handshakeType) succeed();
      else socket.destroy(new Error('no handshake'));
    });
    socket.on('error', fail).on('close', () => {
      clearTimeout(timer);
      fail(new Error('closed'));
    });
    // Nothing is expected, but the other side's end is seen only by somebody who reads.
    socket.resume();
  });
}

function takePort(): number {
  const port = nextPort;
  nextPort = port === lastPort ? firstPort : port + 1;
  return port;
}
