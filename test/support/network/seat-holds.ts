import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { OwnTime } from './own-time.ts';
import { nameError } from './seat-connects.ts';
import type { HoldReport, HoldTask } from './seat-tasks.ts';

/** How long thousands of connections may take to be opened and to echo, on a machine that is busy with both ends. */
const echoLimitMs = 30_000;

const tickMs = 100;
const own = new OwnTime();

/** A connection, and how many of its bytes are still on their way. */
interface Held {
  readonly socket: Socket;
  awaited: number;
  hasEnded: boolean;
}

/** Opens connections, tells in a line how many there are, and has their bytes echoed until the time is over or it is told to settle. */
export async function holdConnections(task: HoldTask, settled: AbortSignal): Promise<HoldReport> {
  const { host, port, count, durationMs, intervalMs = tickMs } = task;
  const report: HoldReport = { opened: 0, sent: 0, echoes: 0, errors: {} };
  const all = await openAll({ host, port, count }, report);
  process.stdout.write(`${JSON.stringify({ held: all.length })}\n`);
  const until = own.now() + durationMs;
  // A part at a time, so that a long interval is no burst at its end.
  const size = Math.ceil((all.length * tickMs) / intervalMs);
  for (let next = 0; own.now() < until && !settled.aborted; next += size) {
    if (next >= all.length) next = 0;
    ping(all.slice(next, next + size), report);
    await sleep(tickMs);
  }
  ping(all, report);
  await waitForEchoes(all);
  for (const { socket } of all) socket.destroy();
  return report;
}

/** Those that could be opened; the errors of the others are in the report. */
async function openAll(
  { host, port, count }: Pick<HoldTask, 'host' | 'port' | 'count'>,
  report: HoldReport,
): Promise<Held[]> {
  const all: Held[] = [];
  await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      // 2,000 at once would overflow the listener's backlog, which is not what is tested.
      await sleep(index);
      await open(host, port, report).then(
        (held) => void all.push(held),
        (error: unknown) => {
          countError(report, error);
        },
      );
    }),
  );
  return all;
}

function ping(all: readonly Held[], report: HoldReport): void {
  for (const held of all) {
    held.socket.write('.');
    held.awaited += 1;
  }
  report.sent += all.length;
}

/** Until all bytes of each have come back, or it has ended: one that hangs is sent again at intervals that double. */
async function waitForEchoes(all: readonly Held[]): Promise<void> {
  const until = own.now() + echoLimitMs;
  const isOver = ({ awaited, hasEnded }: Held) => hasEnded || awaited <= 0;
  while (!all.every(isOver) && own.now() < until) await sleep(20);
}

function open(host: string, port: number, report: HoldReport): Promise<Held> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, noDelay: true }, () => socket.write('echo\n'));
    const held: Held = { socket, awaited: 0, hasEnded: false };
    const cancel = own.schedule(echoLimitMs, () => socket.destroy(new Error('timeout')));
    let greeting = '';
    const onGreeting = (data: Buffer) => {
      // The apiserver's name, and the first line that comes back.
      greeting += data.toString('latin1');
      if (!greeting.endsWith('\necho\n')) return;
      report.opened += 1;
      cancel();
      socket.off('data', onGreeting).on('data', (bytes: Buffer) => {
        report.echoes += bytes.length;
        held.awaited -= bytes.length;
        if (bytes.includes('bye')) report.farewells = (report.farewells ?? 0) + 1;
      });
      socket.on('error', (error) => {
        countError(report, error);
      });
      socket.on('close', () => (held.hasEnded = true));
      resolve(held);
    };
    socket.on('data', onGreeting);
    socket.once('error', reject).once('close', cancel);
  });
}

function countError({ errors }: HoldReport, error: unknown): void {
  const name = nameError(error);
  errors[name] = (errors[name] ?? 0) + 1;
}
