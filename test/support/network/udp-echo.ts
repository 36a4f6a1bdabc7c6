/**
 * A pod's UDP server, on all addresses: it answers each packet with its name and the sender's address. Run as a program of its own:
 *   udp-echo.ts NAME PORT
 * Or a client, which prints what each of COUNT packets is answered with, each from a port of its own:
 *   udp-echo.ts ask ADDRESS PORT COUNT LIMIT_MS
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { OwnTime } from './own-time.ts';

const [name = '', ...words] = process.argv.slice(2);

const own = new OwnTime();

/** What takes longer than the limit is lost. */
async function ask(host: string, port: number, limitMs: number): Promise<string> {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4');
  // Connected, so that a refusal is heard.
  socket.connect(port, host);
  await once(socket, 'connect');
  const over = new AbortController();
  const cancel = own.schedule(limitMs, () => {
    over.abort();
  });
  const answer = once(socket, 'message', { signal: over.signal });
  socket.send('x');
  try {
    return String((await answer)[0]);
  } catch (error) {
    return (error as Error).name === 'AbortError' ? 'lost' : 'refused';
  } finally {
    cancel();
    socket.close();
  }
}

if (name === 'ask') {
  const [host = ''] = words;
  const [port = 0, count = 0, limitMs = 0] = words.slice(1).map(Number);
  const answers = await Promise.all(Array.from({ length: count }, () => ask(host, port, limitMs)));
  process.stdout.write(`${JSON.stringify(answers)}\n`);
} else {
  const server = createSocket({ type: 'udp6', ipv6Only: false });
  server.on('message', (_, { address, port }) => {
    server.send(`${name} ${address.replace('::ffff:', '')}`, port, address);
  });
  server.bind(Number(words[0]), () => {
    process.stdout.write('ready\n');
  });
}
