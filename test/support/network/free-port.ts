import { once } from 'node:events';
import { createServer } from 'node:net';

/** The kernel gives none of these to who asks for any (net.ipv4.ip_local_port_range), so nobody takes one before it is used. */
const [firstPort, count] = [10_000, 20_000];

/** Each process begins elsewhere. */
let next = (process.pid * 20) % count;

/** A port of 127.0.0.1 on which nobody listens, for a program that cannot choose one by itself. Another one at each call. */
export async function findFreePort(): Promise<number> {
  const port = firstPort + next;
  next = (next + 1) % count;
  const server = createServer();
  const isFree = await Promise.race([
    once(server.listen(port, '127.0.0.1'), 'listening').then(() => true),
    once(server, 'error').then(() => false),
  ]).catch(() => false);
  if (!isFree) return await findFreePort();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
