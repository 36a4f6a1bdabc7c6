import { createServer, type Server, connect } from 'node:net';
import { createHash } from 'node:crypto';
import { locateLab } from './state.ts';
import { LabError } from '../settings/error.ts';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

/** Whoever holds a lab answers at once, unless it is stopped. */
const askTimeoutMs = 1000;

/**
 * Claims the lab of a name for a command that changes it, until the answered function is called or this process ends, however that
 * ends: an abstract Unix socket goes with its process, so no file of a dead one is in the way.
 * @param command what others hear of it, such as `up`
 * @throws LabError that names the command that has the lab.
 */
export async function claimLab(name: string, command: string): Promise<() => void> {
  const server = createServer((client) => {
    client.on('error', () => undefined).end(`scripts/lab ${command}, process ${process.pid}`);
  });
  // Other checkouts have labs of the same names. The kernel takes 107 bytes.
  const address = `\0vipnat-lab-${createHash('sha256').update(locateLab(name)).digest('hex')}`;
  if (await listen(server, address)) {
    return () => {
      server.close();
    };
  }
  throw new LabError(
    `another command is changing the lab ${name} (${await ask(address)}). Try again when that command has ended`,
  );
}

/** Whether it listens; false when another process does. */
async function listen(server: Server, address: string): Promise<boolean> {
  server.listen(address).unref();
  try {
    await once(server, 'listening');
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    return false;
  }
}

/** What the command is that holds it, as that says it. */
async function ask(address: string): Promise<string> {
  const socket = connect(address);
  socket.setTimeout(askTimeoutMs, () => socket.destroy(new Error('no answer')));
  return await text(socket).catch(() => 'it does not say which');
}
