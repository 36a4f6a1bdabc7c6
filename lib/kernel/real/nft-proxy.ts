import { familyToNft } from '../netlink/nft-chains.ts';
import { type Family } from '../../address/address.ts';
import { isNftName } from './nft-name.ts';
import { execTool } from '../tools/exec.ts';
import { parseObjects } from './nft-json.ts';
import { type NftProxyOutput } from '../port.ts';
import { settleAll } from '../tools/settle.ts';
import { toolFailed } from '../tools/tool-errors.ts';
import { isInPath } from '../tools/toolbox.ts';

/** Whose chain to read, and for how long each nft may take. */
export interface NftProxySource {
  readonly family: Family;
  readonly serviceChain: string;
  readonly limitMs: number;
}

/**
 * The objects of kube-proxy's nftables table that say how one service is balanced; null without that table or
 * without nft. Only what is asked for by name is read: listing tables loads every table of the host (nft 1.0.6).
 */
export async function readNftProxy({
  family,
  serviceChain,
  limitMs,
}: NftProxySource): Promise<NftProxyOutput | null> {
  if (!isInPath('nft')) return null;
  const list = (kind: 'map' | 'chain' | 'set', name: string) =>
    listObjects([kind, familyToNft[family], 'kube-proxy', name], limitMs);

  // The map every kube-proxy has first: most hosts have no such table, and one nft tells that.
  const serviceIps = await list('map', 'service-ips');
  if (serviceIps === null) return null;
  const [withoutEndpoints, chain] = await settleAll([
    list('map', 'no-endpoint-services'),
    list('chain', serviceChain),
  ]);
  const { chains, sets } = listReferred(chain);
  const referred = await settleAll([
    ...chains.map((name) => list('chain', name)),
    ...sets.map((name) => list('set', name)),
  ]);
  const objects = [serviceIps, withoutEndpoints, chain, ...referred].flatMap((found) => found ?? []);
  return { family, objects };
}

/** Null when there is no such object. */
async function listObjects(object: readonly string[], limitMs: number): Promise<unknown[] | null> {
  const { exitCode, stdout, stderr } = await execTool({
    tool: 'nft',
    // Sets of clients without the clients.
    arguments: ['-j', ...(object[0] === 'set' ? ['-t'] : []), 'list', ...object],
    limitMs,
    isPatient: true,
  });
  if (exitCode !== 0) {
    // nft 1.0.6 exits with 1 and `Error: No such file or directory` for a missing table, map or chain alike.
    if (stderr.includes('Error: No such file or directory')) return null;
    throw toolFailed({ tool: `nft -j list ${object.join(' ')}`, exitCode, stderr, input: '' });
  }
  return parseObjects(stdout);
}

/**
 * What else has to be asked for by name, as the given rules refer to it: the endpoint chains that goto, jump and verdict maps
 * lead to, and one of the sets of clients, which are all declared alike. Pure and total.
 */
export function listReferred(rules: unknown): { chains: readonly string[]; sets: readonly string[] } {
  const text = JSON.stringify(rules);
  const listNames = (pattern: RegExp) =>
    [...text.matchAll(pattern)].map(([, name]) => name ?? '').filter(isNftName);
  return {
    chains: [...new Set(listNames(/"target": ?"(endpoint-[^"]+)"/g))],
    sets: listNames(/"@(affinity-[^"]+)"/g).slice(0, 1),
  };
}
