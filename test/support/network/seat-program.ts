/**
 * A client in a namespace: reads one task a line from standard input, answers each with one line. Started once per
 * seat, so that a request costs a connection and not a process.
 */
import { connect as connectPlain } from 'node:net';
import { createInterface } from 'node:readline';
import { connect as connectTls, type PeerCertificate } from 'node:tls';
import { OwnTime } from './own-time.ts';
import { connectAtRate, isPortTaken, nameError, takePort } from './seat-connects.ts';
import { holdConnections } from './seat-holds.ts';
import { watchObject, writeObject } from './seat-watch.ts';
import { watchTogether } from './seat-watches.ts';
import { requestLimitMs, type RequestReport, type RequestTask, type Task, type Word } from './seat-tasks.ts';

/** What this process stands still counts for none of its limits, and for no schedule. */
const own = new OwnTime();

/** Whether each word was said to the task under way. */
let words = { settle: new AbortController(), speak: new AbortController() };
let last = Promise.resolve();
createInterface({ input: process.stdin })
  .on('line', (line) => {
    const task = JSON.parse(line) as Task | Word;
    if (isWord(task)) words[task.kind].abort();
    else last = last.then(() => answer(task));
  })
  // A connection whose address has left the host would hold the process for minutes: nobody answers its last bytes.
  .on('close', () => void last.then(() => process.exit()));

function isWord(task: Task | Word): task is Word {
  return task.kind in words;
}

async function answer(task: Task): Promise<void> {
  words = { settle: new AbortController(), speak: new AbortController() };
  process.stdout.write(`${JSON.stringify(await run(task, words.settle.signal, words.speak.signal))}\n`);
}

function run(task: Task, settled: AbortSignal, spoken: AbortSignal): Promise<unknown> {
  switch (task.kind) {
    case 'requests':
      return sendRequests(task);
    case 'hold':
      return holdConnections(task, settled);
    case 'connects':
      return connectAtRate(task, settled);
    case 'watch':
      return watchObject(task);
    case 'watches':
      return watchTogether(task, settled, spoken);
    case 'write':
      return writeObject(task);
  }
}

async function sendRequests({
  host,
  port,
  count,
  concurrency,
  limitMs = requestLimitMs,
  from: localAddress,
  isPlain = false,
}: RequestTask): Promise<RequestReport> {
  const report: RequestReport = { apiservers: {}, from: {}, errors: {} };
  let left = count;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      const target = { host, port, ...(localAddress === undefined ? {} : { localAddress }) };
      await (isPlain ? greet(target, limitMs) : request(target, limitMs)).then(
        ({ apiserver, from }) => {
          increment(report.apiservers, apiserver);
          increment(report.from, from);
        },
        (error: unknown) => {
          increment(report.errors, nameError(error));
        },
      );
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  return report;
}

function request(
  target: { host: string; port: number; localAddress?: string },
  limitMs: number,
): Promise<{ apiserver: string; from: string }> {
  return new Promise((resolve, reject) => {
    let answer = '';
    // A real apiserver does not say who it is, but its certificate does.
    let apiserver = '';
    const socket = connectTls({ ...target, rejectUnauthorized: false }, () => {
      apiserver = nameApiserver(socket.getPeerCertificate());
      socket.write('GET /version HTTP/1.0\r\nconnection: close\r\n\r\n');
    });
    const cancel = own.schedule(limitMs, () => socket.destroy(new Error('timeout')));
    socket.setEncoding('utf8').on('data', (data: string) => (answer += data));
    socket.on('error', reject).on('close', () => {
      cancel();
      const body = /^HTTP\/1\.\d 200 .*?(\{.*\})/s.exec(answer)?.[1];
      if (body === undefined) reject(new Error(answer.split('\r\n', 1)[0] ?? 'no answer'));
      else resolve({ apiserver, from: '', ...(JSON.parse(body) as object) });
    });
  });
}

/** Asks an apiserver of the miniature cluster for its name, without TLS. */
function greet(
  target: { host: string; port: number },
  limitMs: number,
  portsLeft = 100,
): Promise<{ apiserver: string; from: string }> {
  return new Promise((resolve, reject) => {
    const socket = connectPlain({ ...target, localPort: takePort() }, () => socket.write('echo\n'));
    const cancel = own.schedule(limitMs, () => socket.destroy(new Error('timeout')));
    socket.once('data', (greeting: Buffer) => {
      resolve({ apiserver: greeting.toString('latin1').split('\n', 1)[0] ?? '', from: '' });
      socket.end();
    });
    socket.on('error', (error) => {
      if (isPortTaken(error) && portsLeft > 1) resolve(greet(target, limitMs, portsLeft - 1));
      else reject(error);
    });
    socket.on('close', () => {
      cancel();
      reject(new Error('closed'));
    });
  });
}

function increment(counts: Record<string, number>, key: string): void {
  counts[key] = (counts[key] ?? 0) + 1;
}

/**
 * Whose certificate an apiserver has. The lab's are named for their node; kubeadm's are all named alike, and have the node among
 * the other names.
 */
function nameApiserver({ subject, subjectaltname = '' }: PeerCertificate): string {
  const node = /DNS:(?!kubernetes\b|localhost\b)([^,]+)/.exec(subjectaltname)?.[1];
  return String(subject.CN) === 'kube-apiserver' && node !== undefined ? node : String(subject.CN);
}
