/**
 * A small apiserver: TLS on one port, that says who it is. Run as a program of its own in a host's namespace:
 *   apiserver.ts NAME PORT CERTIFICATE KEY [ADDRESS]
 * On all addresses unless one is given.
 * A line on its standard input is how it answers from then on: `well`, `slow` (300 ms later), `failing` (500 to everything), `strict`
 * (401 without a token). MANNER in its environment is how it answers at first, BACKLOG how many
 * connections wait for it at most.
 * GET /readyz answers ok, everything else {"apiserver": NAME, "from": the client's address}. A connection whose first
 * bytes are `echo` and a newline is no TLS: what it sends comes back, for as long as it likes.
 */
import { readFileSync } from 'node:fs';
import { createServer as createHttpsServer } from 'node:https';
import { createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

// As it is called in /proc: whoever looks for strangers on its port knows it by that.
process.title = 'kube-apiserver';

const [name = '', port = '', certificate = '', key = '', address = '::'] = process.argv.slice(2);

/** Slower than any good apiserver, and faster than any limit. */
const slowMs = 300;

let manner = process.env['MANNER'] ?? 'well';
createInterface(process.stdin).on('line', (line) => {
  manner = line;
});

const https = createHttpsServer(
  { cert: readFileSync(certificate), key: readFileSync(key) },
  (request, response) => {
    const from = request.socket.remoteAddress?.replace('::ffff:', '') ?? '';
    response.setHeader('content-type', 'application/json');
    if (manner === 'failing') response.statusCode = 500;
    if (manner === 'strict' && request.headers.authorization === undefined) response.statusCode = 401;
    const answer = request.url === '/readyz' ? 'ok' : `${JSON.stringify({ apiserver: name, from })}\n`;
    if (manner === 'slow') setTimeout(() => response.end(answer), slowMs);
    else response.end(answer);
  },
);

createServer((socket) => {
  // A client that goes away in the middle is no trouble of ours.
  socket.on('error', () => socket.destroy());
  socket.once('readable', () => {
    const first = socket.read() as Buffer | null;
    if (first === null) return;
    const isEcho = first.toString('latin1').startsWith('echo\n');
    // TLS starts with what was read already: it takes what is in the socket's buffer.
    socket.unshift(first);
    if (isEcho) echo(socket);
    else https.emit('connection', socket);
  });
}).listen({ host: address, port: Number(port), backlog: Number(process.env['BACKLOG'] ?? 4096) }, () => {
  process.stdout.write('ready\n');
});

function echo(socket: Socket): void {
  socket.write(`${name}\n`);
  socket.pipe(socket);
}
