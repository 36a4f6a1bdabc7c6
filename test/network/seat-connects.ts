import { connect } from 'node:net';
import { type ConnectReport, type ConnectTask } from './seat.ts';

/** A SYN that is lost is sent again after a second: what is not there by then, a person notices. */
const connectLimitMs = 1000;

/**
 * Each connection is from the next local port: left to itself the kernel soon takes one again whose connection timed
 * out, and the VIP's holder still has an entry for it that leads to the dead apiserver. At 500 a second the
 * same port comes again when that entry, and whatever waits after a close, is gone (120 s). Other programs have to
 * keep to the ports above (net.ipv4.ip_local_port_range).
 */
const [firstPort, lastPort] = [1024, 60_999];
let nextPort = firstPort;

/** Connects on schedule, whatever becomes of the ones before: an outage must not slow down its own measurement. */
export async function connectAtRate(task: ConnectTask): Promise<ConnectReport> {
  const { host, port, perSecond, durationMs } = task;
  const started = performance.now();
  const failures: ConnectReport['failures'] = [];
  const pending = new Set<Promise<void>>();
  const count = (perSecond * durationMs) / 1000;
  for (let index = 0; index < count; index += 1) {
    const waitMs = (index * 1000) / perSecond - (performance.now() - started);
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    const atMs = performance.now() - started;
    const attempt = tryToConnect(host, port).catch((error: unknown) => {
      failures.push({ atMs, error: nameError(error) });
    });
    pending.add(attempt);
    void attempt.then(() => pending.delete(attempt));
  }
  await Promise.all(pending);
  const startedAt = performance.timeOrigin + started;
  return { startedAt, sent: count, failures: failures.sort((a, b) => a.atMs - b.atMs) };
}

/** The system's word for what went wrong, else the message. */
export function nameError(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}

function tryToConnect(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, localPort: takePort() }, () => {
      socket.end();
      resolve();
    });
    const timer = setTimeout(() => socket.destroy(new Error('timeout')), connectLimitMs);
    socket.on('error', reject).on('close', () => {
      clearTimeout(timer);
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
