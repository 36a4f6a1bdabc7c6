import { readdir, readFile, readlink } from 'node:fs/promises';
import { endianness } from 'node:os';
import { type Family, parseAddress } from '../address/address.ts';

/** A TCP socket of this network namespace that takes connections. */
export interface Listener {
  readonly family: Family;
  /** Canonical text; `0.0.0.0` and `::` are every address. */
  readonly address: string;
  readonly port: number;
  /** Who has it open; null when nobody among the processes asked about. */
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
