/** What the rules of a port need of nft and the kernel. */
import { type Family } from '../../lib/address/address.ts';
import { type MissingFeatures, type NftFeature } from '../../lib/kernel/real/nft-features.ts';
import { type PortBalance } from './balanced-service.ts';

/** What people have to do about one that is missing, as a clause. */
const featureToWords: Readonly<Record<NftFeature, string>> = {
  fib: 'the kernel has no nft_fib',
  dup: 'the kernel has no nft_dup',
  hash: 'the kernel has no nft_hash',
  numgen: 'the kernel has no nft_numgen',
  reject: 'the kernel cannot refuse packets before routing, as Linux 5.9 and later can',
  'verdict map': 'this nft cannot read its own maps of verdicts, as nft 1.0.6 and later can',
};

/** Why a Service with these ports cannot be in the tables here: a clause; null where nothing is missing. Pure. */
export function describeMissing(
  ports: readonly PortBalance[],
  missing: MissingFeatures | undefined,
): string | null {
  if (missing === undefined) return null;
  const lacking = ports.flatMap((port) =>
    missing[port.family]
      .filter((feature) => listNeeds(port).includes(feature))
      .map((feature) => describe(feature, port.family)),
  );
  return lacking.length === 0 ? null : [...new Set(lacking)].join(', and ');
}

function describe(feature: NftFeature, family: Family): string {
  const isOfFamily = feature === 'fib' || feature === 'dup';
  return isOfFamily ? `${featureToWords[feature]}_${family}` : featureToWords[feature];
}

/** As render-port.ts and render-relay.ts write them. */
function listNeeds({
  relay,
  isHere,
  backends,
  affinitySeconds,
  keepsClient,
  method,
}: PortBalance): NftFeature[] {
  const toOutside: NftFeature[] = relay?.uplinks === undefined ? ['fib'] : [];
  const forRelay: NftFeature[] = relay === null ? [] : [...toOutside, 'dup', 'hash', 'verdict map'];
  if (!isHere) return forRelay;
  if (backends.length === 0) return [...forRelay, 'reject'];
  return [
    ...forRelay,
    method === 'hash' ? 'hash' : 'numgen',
    ...(affinitySeconds === null ? [] : (['verdict map'] as const)),
    ...(keepsClient ? (['fib'] as const) : []),
  ];
}
