/**
 * Runs a command in the virtual machine behind this network namespace, as if it were here:
 *   client.ts REQUEST        a GuestRequest in JSON
 * Standard input, output and error are the command's; so is the exit status, or 255 when there is no answer.
 */
import { connect } from 'node:net';
import { createFrameReader, frameTypes, guestAddress, guestPort } from './frames.ts';

const connectLimitMs = 5000;

const socket = connect({ host: guestAddress, port: guestPort, allowHalfOpen: true });
let status = 255;

const timer = setTimeout(() => socket.destroy(new Error('the machine does not answer')), connectLimitMs);
socket.on('connect', () => {
  clearTimeout(timer);
  socket.write(`${process.argv[2] ?? ''}\n`);
  process.stdin.pipe(socket);
});
const read = createFrameReader((type, payload) => {
  if (type === frameTypes.stdout) process.stdout.write(payload);
  else if (type === frameTypes.stderr) process.stderr.write(payload);
  else status = payload.readInt32BE(0);
});
socket.on('data', read);
socket.on('error', (error) => {
  process.stderr.write(`${error.message}\n`);
});
socket.on('close', () => {
  clearTimeout(timer);
  process.stdin.destroy();
  process.exitCode = status < 0 ? 255 : status;
});
