import { type EarlySlice } from '../../lib/services/early-slices.ts';
import { type Group, readGroupText, toGroupText } from './slice-fields.ts';
import { type WantedEndpoint } from './wanted-endpoints.ts';

/** What the early EndpointSlices of a Service are to have. */
export interface SlicesPlan {
  /** Slices that are there, with their endpoints in the order of the addresses; none for one that is to go. */
  readonly kept: readonly { readonly slice: EarlySlice; readonly endpoints: readonly WantedEndpoint[] }[];
  /** Slices that are to be made. */
  readonly created: readonly { readonly group: Group; readonly endpoints: readonly WantedEndpoint[] }[];
}

/** As many as Kubernetes puts into one: a change of one pod writes all of them. */
const maxEndpoints = 100;

/** Plans the early EndpointSlices of one Service. Endpoints stay in the slice that has them, so that a change writes one. Pure. */
export function planSlices(wanted: readonly WantedEndpoint[], existing: readonly EarlySlice[]): SlicesPlan {
  const textToLeft = new Map(
    [...Map.groupBy(wanted, toGroupText)].map(([text, group]) => [text, new Set(group)]),
  );
  const take = (slice: EarlySlice, most: number, isTaken: (endpoint: WantedEndpoint) => boolean) => {
    const left = textToLeft.get(readGroupText(slice)) ?? new Set();
    const taken = [...left].filter(isTaken).slice(0, most);
    for (const endpoint of taken) left.delete(endpoint);
    return taken;
  };
  const stayed = existing.map((slice) => {
    const uids = new Set((slice.endpoints ?? []).map(({ targetRef }) => targetRef?.uid ?? ''));
    return { slice, endpoints: take(slice, maxEndpoints, ({ pod }) => uids.has(pod.uid)) };
  });
  const kept = stayed.map(({ slice, endpoints }) => {
    const added = take(slice, maxEndpoints - endpoints.length, () => true);
    return { slice, endpoints: sort([...endpoints, ...added]) };
  });
  const created = [...textToLeft.values()].flatMap((left) => cut(sort([...left])));
  return { kept, created };
}

function cut(endpoints: readonly WantedEndpoint[]): { group: Group; endpoints: WantedEndpoint[] }[] {
  const [group] = endpoints;
  if (group === undefined) return [];
  const count = Math.ceil(endpoints.length / maxEndpoints);
  return Array.from({ length: count }, (_, index) => {
    return { group, endpoints: endpoints.slice(index * maxEndpoints, (index + 1) * maxEndpoints) };
  });
}

/** Pods of the host's network can have one address: then by their names. */
function sort(endpoints: readonly WantedEndpoint[]): WantedEndpoint[] {
  const toText = ({ address, pod }: WantedEndpoint) => `${address} ${pod.uid}`;
  return endpoints.toSorted((one, other) => (toText(one) < toText(other) ? -1 : 1));
}
