/**
 * Stands before an apiserver, and brings what it answers later: a program for a host's namespace.
 *   late-proxy.ts PORT TARGET-ADDRESS TARGET-PORT
 * A line on its standard input is how many milliseconds later every byte comes back from then on, those of handshakes too, on
 * connections that are open as well as on new ones.
 */
import { connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';

const [port = '', address = '', targetPort = ''] = process.argv.slice(2);
let lateMs = 0;
createInterface(process.stdin).on('line', (line) => {
  lateMs = Number(line);
});

createServer((client) => {
  const target = connect({ host: address, port: Number(targetPort) });
  let dueAt = 0;
  /** Later, and never before what came earlier. */
  const doLater = (what: () => void) => {
    dueAt = Math.max(dueAt, performance.now() + lateMs);
    setTimeout(what, Math.max(0, dueAt - performance.now()));
  };
  client.on('error', () => undefined).on('close', () => target.destroy());
  target.on('error', () => undefined);
  client.pipe(target);
  target.on('data', (bytes) => {
    doLater(() => client.write(bytes));
  });
  target.on('close', () => {
    // After the last bytes, whose timer may fire in the same millisecond.
    doLater(() => setTimeout(() => client.end(), 1));
  });
}).listen(Number(port), () => {
  process.stdout.write('ready\n');
});
