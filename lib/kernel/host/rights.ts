import { readFile } from 'node:fs/promises';

/** What this process may do to the network, see capabilities(7). */
export interface Rights {
  readonly hasNetAdmin: boolean;
  readonly hasNetRaw: boolean;
}

// linux/capability.h
const CAP_NET_ADMIN = 12n;
const CAP_NET_RAW = 13n;

/** The effective capabilities of this process. */
export async function readRights(): Promise<Rights> {
  const text = await readFile('/proc/self/status', 'utf8');
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(text)?.[1] ?? '0'}`);
  const has = (capability: bigint) => ((effective >> capability) & 1n) === 1n;
  return { hasNetAdmin: has(CAP_NET_ADMIN), hasNetRaw: has(CAP_NET_RAW) };
}
