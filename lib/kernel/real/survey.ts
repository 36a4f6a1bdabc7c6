import { type Family } from '../../address/address.ts';
import { VipnatError } from '../../text/errors.ts';
import { type NetlinkQuestioner, withNetlinkClient } from '../netlink/netlink.ts';
import { familyToNft, listChains } from '../netlink/nft-chains.ts';
import { readTableHandles } from '../netlink/nft-tables.ts';
import { ownTable } from '../netlink/own-table.ts';

/** What nftables holds of one family, iptables-nft's part included, before a tool is asked. */
export interface Survey {
  /** Whether tools would take long to list all rules. */
  readonly isLarge: boolean;
  /** Whether there can be a table that is vipnat's, or kube-proxy's. */
  readonly hasTable: Readonly<Record<'vipnat' | 'kube-proxy', boolean>>;
}

/** iptables-nft-save takes 8 ms for so many (1.8.9): it ends between two commits, also where there are fifty a second. */
const fewRules = 250;

/** Where nothing can be known, tools are asked for everything: they can say what is wrong. */
export const unsurveyed: Survey = { isLarge: false, hasTable: { vipnat: true, 'kube-proxy': true } };

/** Takes a look at the host, in a millisecond for each thousand chains. Never rejects: without an answer there is nothing to be spared. */
export async function surveyRules(family: Family): Promise<Survey> {
  try {
    const look = async (client: NetlinkQuestioner): Promise<Survey> => {
      const chains = await listChains(client, familyToNft[family]);
      if (chains.reduce((sum, { use }) => sum + use, 0) <= fewRules) return unsurveyed;
      const hasHandle = async (name: string) => (await readTableHandles(client, name))[family] !== null;
      return {
        isLarge: true,
        hasTable: { vipnat: await hasHandle(ownTable), 'kube-proxy': await hasHandle('kube-proxy') },
      };
    };
    return await withNetlinkClient('netfilter', look, true);
  } catch (error) {
    if (error instanceof VipnatError) return unsurveyed;
    throw error;
  }
}
