/**
 * A pod's UDP server, on all addresses: it answers each packet with its name and the sender's address. Run as a program of its own:
 *   udp-echo.ts NAME PORT
 * Or a client, which prints what each of COUNT packets is answered with, each from a port of its own:
 *   udp-echo.ts ask ADDRESS PORT COUNT
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';

const [name = '', ...words] = process.argv.slice(2);

/** What takes longer is lost. */
const limitMs = 1000;

async function ask(host: string, port: number): Promise<string> {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4');
  // Connected, so that a refusal is heard.
  socket.connect(port, host);
  await once(socket, 'connect');
  const answer = once(socket, 'message', { signal: AbortSignal.timeout(limitMs) });
  socket.send('x');
  try {
    return String((await answer)[0]);
  } catch (error) {
    return (error as Error).name === 'AbortError' ? 'lost' : 'refused';
  } finally {
    socket.close();
  }
}

if (name === 'ask') {
  const [host = '', port = '', count = ''] = words;
  const answers = await Promise.all(Array.from({ length: Number(count) }, () => ask(host, Number(port))));
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
