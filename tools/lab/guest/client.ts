/**
 * Runs a command in the virtual machine behind this network namespace, as if it were here:
 *   client.ts REQUEST        a GuestRequest in JSON
 * Standard input, output and error are the command's; so is the exit status, or 255 when there is no answer.
 */
import { connect } from 'node:net';
import { guestAddress, guestPort, encodeFrame, frameTypes, createFrameReader } from './frames.ts';
import type { Writable, Readable } from 'node:stream';

/** A machine beside other work may stand still for seconds. */
const connectLimitMs = 20_000;

const socket = connect({ host: guestAddress, port: guestPort });
let status = 255;

const timer = setTimeout(() => socket.destroy(new Error('the machine does not answer')), connectLimitMs);
socket.on('connect', () => {
  clearTimeout(timer);
  socket.write(`${process.argv[2] ?? ''}\n`);
  process.stdin.on('data', (bytes: Buffer) => {
    waitFor(socket, process.stdin, socket.write(encodeFrame(frameTypes.stdin, bytes)));
  });
  process.stdin.on('end', () => socket.write(encodeFrame(frameTypes.stdin, Buffer.alloc(0))));
});
const read = createFrameReader((type, payload) => {
  if (type === frameTypes.exit) status = payload.readInt32BE(0);
  else {
    const output = type === frameTypes.stdout ? process.stdout : process.stderr;
    waitFor(output, socket, output.write(payload));
  }
});
// Nobody reads any more: the end of the connection ends the command.
for (const output of [process.stdout, process.stderr]) output.on('error', () => socket.destroy());
socket.on('data', read);
socket.on('error', (error) => {
  process.stderr.write(`${error.message}\n`);
});
socket.on('close', () => {
  clearTimeout(timer);
  process.stdin.destroy();
  process.exitCode = status < 0 ? 255 : status;
});

/** Reads no more from a source until its destination has taken what it got. */
function waitFor(destination: Writable, source: Readable, hasRoom: boolean): void {
  if (hasRoom || source.isPaused()) return;
  source.pause();
  destination.once('drain', () => source.resume());
}
