import { podPort } from '../../lab/services/web.ts';

/** What Node runs in a pod: it says its name, echoes, and ends at once on SIGTERM. Each long connection hears of it before. */
export const webProgram = `const sockets = new Set();
const server = require('node:net').createServer({ noDelay: true }, (socket) => {
  sockets.add(socket);
  socket.on('close', () => sockets.delete(socket)).on('error', () => undefined);
  socket.write(process.env.HOSTNAME + '\\n');
  socket.on('data', (data) => socket.write(data));
});
server.listen(${podPort}, '::');
process.on('SIGTERM', () => {
  for (const socket of sockets) socket.write('bye');
  setImmediate(() => process.exit(0));
});`;

/** A pod of it is ready as soon as it listens. */
export const webContainer = { readinessProbe: { tcpSocket: { port: podPort }, periodSeconds: 1 } };
