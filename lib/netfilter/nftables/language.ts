import { type RuleLanguage } from '../rules/compare-chain.ts';
import { signaturePrefix } from '../rules/signature.ts';
import { hasSameMeaning } from './meaning.ts';

/** How rules of nft are read. */
export const nftLanguage: RuleLanguage = {
  readComment,
  hasSameMeaning,
  isOwnRule: (printed) => readComment(printed)?.startsWith(signaturePrefix) === true,
};

/** nft prints the comment last. */
function readComment(printed: string): string | null {
  return / comment "([^"]*)"$/.exec(printed)?.[1] ?? null;
}
