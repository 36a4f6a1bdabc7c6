/** An element of the `nftables` array: `{"map": {…}}`, `{"chain": {…}}`, `{"rule": {…}}`. */
type NftObject = Readonly<Record<string, { readonly name?: string; readonly chain?: string } | undefined>>;

/** What a targeted read takes out of the whole table `kube-proxy`, in the order of the read's answers. */
export function selectServiceObjects(objects: readonly unknown[], serviceChain: string): unknown[] {
  const all = objects as readonly NftObject[];
  const chain = listChain(all, serviceChain);
  const endpointChains = [...JSON.stringify(chain).matchAll(/"target":"(endpoint-[^"]+)"/g)];
  const affinitySet = /"@(affinity-[^"]+)"/.exec(JSON.stringify(chain))?.[1];
  const names = new Set(endpointChains.map(([, name]) => name ?? ''));
  return [
    ...all.filter(({ map }) => map?.name === 'service-ips'),
    ...all.filter(({ map }) => map?.name === 'no-endpoint-services'),
    ...chain,
    ...[...names].flatMap((name) => listChain(all, name)),
    ...all.filter(({ set }) => set !== undefined && set.name === affinitySet),
  ];
}

/** As `nft -j list chain` prints it: the chain, then its rules. */
function listChain(objects: readonly NftObject[], name: string): NftObject[] {
  return [
    ...objects.filter(({ chain }) => chain?.name === name),
    ...objects.filter(({ rule }) => rule?.chain === name),
  ];
}
