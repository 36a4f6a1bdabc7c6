/**
 * Runs in a virtual machine for as long as it lives: gives it its interfaces and its name (GUEST_HOSTNAME), and runs
 * the commands that come over the management link. A command whose connection breaks is killed with its group.
 */
import { execFileSync, spawn } from 'node:child_process';
import { createServer, type Socket } from 'node:net';
import {
  encodeFrame,
  enclosureAddress,
  frameTypes,
  guestAddress,
  guestPort,
  type GuestRequest,
} from './frames.ts';

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
createServer({ allowHalfOpen: true }, serve).listen(guestPort, guestAddress, () => {
  process.stdout.write('ready\n');
});

function serve(socket: Socket): void {
  let received: Buffer = Buffer.alloc(0);
  const onData = (bytes: Buffer) => {
    received = Buffer.concat([received, bytes]);
    const end = received.indexOf('\n');
    if (end === -1) return;
    socket.off('data', onData).pause();
    const request = JSON.parse(received.toString('utf8', 0, end)) as GuestRequest;
    socket.unshift(received.subarray(end + 1));
    execute(socket, request);
  };
  socket.on('data', onData).on('error', () => socket.destroy());
}

function execute(socket: Socket, { command, environment }: GuestRequest): void {
  const [program = '', ...words] = command;
  const child = spawn(program, words, {
    detached: true,
    env: { ...process.env, ...environment },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
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
  child.on('close', (status) => {
    end(status ?? -1);
  });
  child.stdout.on('data', (bytes: Buffer) => socket.write(encodeFrame(frameTypes.stdout, bytes)));
  child.stderr.on('data', (bytes: Buffer) => socket.write(encodeFrame(frameTypes.stderr, bytes)));
  // A command need not read what it is sent.
  child.stdin.on('error', () => undefined);
  socket.pipe(child.stdin);
  socket.on('close', () => {
    if (!hasEnded && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  });
}
