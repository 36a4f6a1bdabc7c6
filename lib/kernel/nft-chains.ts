import { execTool } from './exec.ts';
import { parseObjects } from './nft-json.ts';
import { type ForwardChain } from './port.ts';
import { toolFailed } from './tool-errors.ts';
import { isInPath } from './toolbox.ts';

/** nftables' chains for packets on their way through this host, iptables-nft's included. None where nft is missing. */
export async function listForwardChains(limitMs: number): Promise<readonly ForwardChain[]> {
  if (!isInPath('nft')) return [];
  const words = ['-j', 'list', 'chains'];
  const { exitCode, stdout, stderr } = await execTool({
    tool: 'nft',
    arguments: words,
    limitMs,
    isPatient: true,
  });
  if (exitCode !== 0) throw toolFailed({ tool: `nft ${words.join(' ')}`, exitCode, stderr, input: '' });
  return (parseObjects(stdout) as readonly ChainObject[]).flatMap(({ chain }) =>
    chain?.hook === 'forward' && chain.type === 'filter'
      ? [{ table: `${chain.family} ${chain.table}`, name: chain.name, isDropping: chain.policy === 'drop' }]
      : [],
  );
}

/** As far as it matters here, see libnftables-json(5). */
interface ChainObject {
  readonly chain?: {
    readonly family: string;
    readonly table: string;
    readonly name: string;
    readonly hook?: string;
    readonly type?: string;
    readonly policy?: string;
  };
}
