import { type Balancer, formatMember, type Listener, type Owned } from '../driver.ts';

/** A balancer as lines, which are the same for all that mean the same. */
export function describeBalancer({ id, addresses, listeners, method, affinityS }: Balancer): string[] {
  const name = `${id.cluster}/${id.namespace}/${id.name}/${id.uid}`;
  const affinity = affinityS === null ? 'no affinity' : `affinity of ${affinityS} s`;
  return [
    `${name} ${method}, ${affinity}`,
    ...addresses.map(({ text }) => `${name} at ${text}`),
    ...listeners.flatMap((listener) => describeListener(listener).map((line) => `${name} ${line}`)),
  ].sort();
}

function describeListener({ protocol, port, members }: Listener): string[] {
  const place = `${protocol}/${port}`;
  return [place, ...members.map((member) => `${place} to ${formatMember(member)} weight ${member.weight}`)];
}

/** How what a device has differs from what was wanted: one sentence; null where it does not. */
export function findDifference(owned: readonly Owned[], wanted: readonly Balancer[]): string | null {
  const there = owned.flatMap(({ balancer }) => describeBalancer(balancer)).sort();
  const meant = wanted.flatMap(describeBalancer).sort();
  const missing = subtract(meant, there);
  const superfluous = subtract(there, meant);
  if (missing.length === 0 && superfluous.length === 0) return null;
  const parts = [
    ...(missing.length === 0 ? [] : [`misses ${quoteSome(missing)}`]),
    ...(superfluous.length === 0 ? [] : [`has ${quoteSome(superfluous)} too much`]),
  ];
  return parts.join(', and ');
}

/** What is more often in one list than in the other. */
export function subtract(texts: readonly string[], others: readonly string[]): string[] {
  const left = [...others];
  return texts.filter((text) => {
    const at = left.indexOf(text);
    if (at === -1) return true;
    left.splice(at, 1);
    return false;
  });
}

/** The first few of them. */
export function quoteSome(texts: readonly string[]): string {
  const shown = texts.slice(0, 3).map((text) => `"${text}"`);
  return texts.length > shown.length ? `${shown.join(', ')} and ${texts.length - 3} more` : shown.join(', ');
}
