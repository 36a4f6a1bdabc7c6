import { createReadStream } from 'node:fs';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { endianness } from 'node:os';
import { type Family, parseAddress } from '../../address/address.ts';
import { type Endpoint } from '../../address/endpoint.ts';

/** A TCP socket of this network namespace that takes connections. */
export interface Listener {
  readonly family: Family;
  /** Canonical text; `0.0.0.0` and `::` are every address. */
  readonly address: string;
  readonly port: number;
  /** The process that has it open; null when none of the given processes has. */
  readonly pid: number | null;
}

/** All that listens here. The owners are looked for among these processes. */
export async function readListeners(pids: readonly number[]): Promise<Listener[]> {
  const tables = await Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'utf8').catch(() => '')),
  );
  const sockets = tables.flatMap(parseListeners);
  const inodeToPid = await findOwners(new Set(sockets.map(({ inode }) => inode)), pids);
  return sockets.map(({ inode, ...socket }) => ({ ...socket, pid: inodeToPid.get(inode) ?? null }));
}

/** Where connections are taken: who has the socket open is another question. */
export type ListeningAddress = Pick<Listener, 'address' | 'port'>;

/**
 * All that listens here, without the owners; null where that cannot be read. The kernel lists listening sockets before all
 * others, so a host with many connections costs no more.
 */
export async function readListeningAddresses(): Promise<readonly ListeningAddress[] | null> {
  try {
    const tables = await Promise.all([readFirstSockets('/proc/net/tcp'), readIpv6Sockets()]);
    return tables.flatMap(parseListeners);
  } catch {
    return null;
  }
}

/** A kernel without IPv6 has no such table. */
function readIpv6Sockets(): Promise<string> {
  return readFirstSockets('/proc/net/tcp6').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  });
}

/** The table at least as far as its listening sockets go. Source: net/ipv4/tcp_ipv4.c, tcp_get_idx. */
async function readFirstSockets(path: string): Promise<string> {
  let text = '';
  for await (const chunk of createReadStream(path, { encoding: 'latin1' })) {
    text += chunk as string;
    if (/^ *\d+: \S+ \S+ (?!0A)\S\S /m.test(text)) break;
  }
  return text;
}

/**
 * Whether connections to an endpoint of this host get to a listening socket. One at `::` takes those over IPv4 too, unless
 * its program forbade that, which no table tells.
 */
export function isReachedBy(endpoint: Endpoint, { address, port }: ListeningAddress): boolean {
  const ipv4 =
    endpoint.family === 'ipv4' ? ['0.0.0.0', parseAddress(`::ffff:${endpoint.address}`)?.text] : [];
  return port === endpoint.port && [endpoint.address, '::', ...ipv4].includes(address);
}

/** The listening sockets of /proc/net/tcp or tcp6. Source: net/ipv4/tcp_ipv4.c, get_tcp4_sock; state 0A is TCP_LISTEN. */
export function parseListeners(text: string): (Omit<Listener, 'pid'> & { readonly inode: string })[] {
  return [
    ...text.matchAll(/^ *\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) \S+ 0A (?:\S+ +){5}(\d+) /gm),
  ].flatMap(([, host = '', port = '', inode = '']) => {
    const address = parseAddress(toText(host));
    return address === null
      ? []
      : [{ family: address.family, address: address.text, port: Number.parseInt(port, 16), inode }];
  });
}

/** 32-bit words as the processor has them. */
function toText(hex: string): string {
  const words = Buffer.from(hex, 'hex');
  const bytes = endianness() === 'LE' ? words.swap32() : words;
  return bytes.length === 4 ? bytes.join('.') : (bytes.toString('hex').match(/.{4}/g)?.join(':') ?? '');
}

async function findOwners(
  inodes: ReadonlySet<string>,
  pids: readonly number[],
): Promise<ReadonlyMap<string, number>> {
  const owners = new Map<string, number>();
  await Promise.all(
    pids.map(async (pid) => {
      const folder = `/proc/${pid}/fd`;
      const files = await readdir(folder).catch(() => []);
      const targets = await Promise.all(files.map((file) => readlink(`${folder}/${file}`).catch(() => '')));
      for (const target of targets) {
        const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1] ?? '';
        if (inodes.has(inode)) owners.set(inode, pid);
      }
    }),
  );
  return owners;
}
