/** What rules may need that not each kernel, and not each nft, has. */
import { familyToNft } from '../netlink/nft-chains.ts';
import { families, type Family } from '../../address/address.ts';
import { isNftRefusal, listNftTable, runNft } from './nft-table.ts';

/**
 * All of them. `reject` is in chains of hook prerouting: Linux 5.9 and later. nft 1.0.2 writes a `verdict map` and cannot read it back: no
 * rule can refer to it again.
 */
export const nftFeatures = ['fib', 'dup', 'hash', 'numgen', 'reject', 'verdict map'] as const;

/** One of them. */
export type NftFeature = (typeof nftFeatures)[number];

/** What is missing, by family. */
export type MissingFeatures = Readonly<Record<Family, readonly NftFeature[]>>;

/** A table that exists for the time of a question. It stays where the process is killed meanwhile, and is replaced by the next question. */
export const trialTable = 'vipnat-trial';

/** Each rule needs just this. */
function toRule(feature: Exclude<NftFeature, 'verdict map'>, family: Family): string {
  const isIpv6 = family === 'ipv6';
  switch (feature) {
    case 'fib':
      return 'fib daddr . iif type != 2 accept';
    case 'dup':
      return `dup to ${isIpv6 ? '2001:db8::1' : '192.0.2.1'}`;
    case 'hash':
      return `jhash ${isIpv6 ? 'ip6' : 'ip'} saddr mod 7 seed 0x1 vmap { 0 : accept }`;
    case 'numgen':
      return 'numgen random mod 2 vmap { 0 : accept }';
    case 'reject':
      return 'reject';
  }
}

/** How nft is asked. */
export interface FeatureTools {
  /** Whether nft and the kernel would take a script. */
  readonly takes: (script: string) => Promise<boolean>;
  /** Has a script take effect. Rejects where it is refused. */
  readonly apply: (script: string) => Promise<void>;
  readonly list: (table: string) => Promise<string>;
}

/**
 * Asks nft and the kernel of this network namespace for each feature, in a table that is gone afterwards. Where they take no table at all, nothing
 * counts as missing: whoever writes one hears why. Rejects as nft does.
 */
export async function listMissingFeatures(tools: FeatureTools): Promise<MissingFeatures> {
  const canReadBack = await readsVerdictMaps(tools);
  const entries: [Family, NftFeature[]][] = [];
  for (const family of families) {
    const missing = await listRefused(tools, family);
    entries.push([
      family,
      canReadBack || missing.isTableRefused ? missing.features : [...missing.features, 'verdict map'],
    ]);
  }
  return Object.fromEntries(entries) as Record<Family, NftFeature[]>;
}

async function listRefused({ takes }: FeatureTools, family: Family) {
  const rules = nftFeatures
    .filter((feature) => feature !== 'verdict map')
    .map((feature) => ({ feature, rule: toRule(feature, family) }));
  const ask = (asked: readonly { readonly rule: string }[]) =>
    takes(
      printTrial(
        family,
        asked.map(({ rule }) => rule),
      ),
    );
  const features: NftFeature[] = [];
  if (await ask(rules)) return { isTableRefused: false, features };
  if (!(await ask([]))) return { isTableRefused: true, features };
  for (const one of rules) if (!(await ask([one]))) features.push(one.feature);
  return { isTableRefused: false, features };
}

function printTrial(family: Family, rules: readonly string[]): string {
  const table = `${familyToNft[family]} ${trialTable}`;
  const lines = [
    `add table ${table}`,
    `add chain ${table} first { type filter hook prerouting priority -155; policy accept; }`,
    ...rules.map((rule) => `add rule ${table} first ${rule}`),
  ];
  return `${lines.join('\n')}\n`;
}

/** It has to be there to be read. nft 1.0.2 prints `type [invalid type] : verdict`. */
async function readsVerdictMaps({ apply, list }: FeatureTools): Promise<boolean> {
  const table = `ip ${trialTable}`;
  try {
    await apply(
      `add table ${table}\ndelete table ${table}\nadd table ${table}\nadd map ${table} verdicts { typeof numgen inc mod 2 : verdict; }\n`,
    );
  } catch (error) {
    if (isNftRefusal(error)) return true;
    throw error;
  }
  try {
    return /typeof numgen inc mod 2 : verdict/.test(await list(table));
  } finally {
    await apply(`delete table ${table}\n`);
  }
}

/** The same for nft itself. */
export function createFeatureTools(apply: (script: string) => Promise<void>, limitMs: number): FeatureTools {
  return {
    takes: async (script) => (await checkScript(script, limitMs)) === null,
    apply,
    list: (table) => listNftTable(table, [], limitMs),
  };
}

/** Why nft or the kernel would refuse a script, a sentence; null where they would take it. Nothing takes effect. Rejects where nft cannot be asked. */
export async function checkScript(input: string, limitMs: number): Promise<string | null> {
  try {
    await runNft({ family: 'ipv4', dialect: 'nftables', input }, limitMs, { isTrial: true });
    return null;
  } catch (error) {
    if (!isNftRefusal(error)) throw error;
    return (error as Error).message;
  }
}
