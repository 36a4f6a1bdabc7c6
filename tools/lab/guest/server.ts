/**
 * Runs in a virtual machine for as long as it lives: gives it its interfaces and its name (GUEST_HOSTNAME), and runs
 * the commands that come over the management link. A command whose connection breaks is killed with its group.
 */
import {
  guestAddress,
  enclosureAddress,
  guestPort,
  type GuestRequest,
  createFrameReader,
  encodeFrame,
  frameTypes,
} from './frames.ts';
import { execFileSync, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createServer, type Socket } from 'node:net';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';

const setUp = `
  hostname "$GUEST_HOSTNAME"
  mkdir -p /dev/shm
  mount -t tmpfs tmpfs /dev/shm
  ip link set lo up
  ip link set vec0 name eth0
  ip link set vec1 name mgmt0
  ip addr add ${guestAddress}/30 dev mgmt0
  ip link set mgmt0 up
  ip neigh replace ${enclosureAddress} lladdr "$ENCLOSURE_LINK" dev mgmt0
`;

execFileSync('sh', ['-ec', setUp], { stdio: 'inherit' });
createServer(serve).listen(guestPort, guestAddress, () => {
  process.stdout.write('ready\n');
});

function serve(socket: Socket): void {
  let received: Buffer = Buffer.alloc(0);
  const onData = (bytes: Buffer) => {
    received = Buffer.concat([received, bytes]);
    const end = received.indexOf('\n');
    if (end === -1) return;
    socket.off('data', onData);
    const request = JSON.parse(received.toString('utf8', 0, end)) as GuestRequest;
    const child = execute(socket, request);
    const read = createFrameReader((_, payload) => {
      // It waits for no room: only a socket that is read tells of its client's end.
      if (payload.length > 0) child.stdin.write(payload);
      else child.stdin.end();
    });
    read(received.subarray(end + 1));
    socket.on('data', read);
  };
  socket.on('data', onData).on('error', () => socket.destroy());
}

function execute(socket: Socket, { command, environment }: GuestRequest): ChildProcessWithoutNullStreams {
  const [program = '', ...words] = command;
  const child = spawn(program, words, { detached: true, env: { ...process.env, ...environment } });
  let hasEnded = false;
  const end = (status: number) => {
    hasEnded = true;
    const payload = Buffer.alloc(4);
    payload.writeInt32BE(status);
    socket.end(encodeFrame(frameTypes.exit, payload));
  };
  child.on('error', (error) => {
    socket.write(encodeFrame(frameTypes.stderr, Buffer.from(`${error.message}\n`)));
    end(127);
  });
  child.on('close', (status, signal) => {
    if (!hasEnded) end(status ?? 128 + (signal === null ? 0 : constants.signals[signal]));
  });
  forward(child.stdout, frameTypes.stdout, socket);
  forward(child.stderr, frameTypes.stderr, socket);
  // A command need not read what it is sent.
  child.stdin.on('error', () => undefined);
  const onGone = () => {
    if (!hasEnded) killGroup(child);
  };
  socket.on('end', onGone).on('close', onGone);
  return child;
}

function forward(output: Readable, type: number, socket: Socket): void {
  output.on('data', (bytes: Buffer) => {
    if (socket.write(encodeFrame(type, bytes))) return;
    output.pause();
    socket.once('drain', () => output.resume());
  });
}

function killGroup({ pid }: ChildProcessWithoutNullStreams): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended by itself, and what it left has not closed its output yet.
  }
}
