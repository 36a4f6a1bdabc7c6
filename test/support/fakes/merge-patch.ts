/** Patches of objects, as an apiserver applies them. */

export type Fields = Readonly<Record<string, unknown>>;

/** A merge patch: RFC 7386. */
export function merge(target: unknown, patch: unknown): unknown {
  if (!isFields(patch)) return patch;
  const merged = new Map(isFields(target) ? Object.entries(target) : []);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name);
    else merged.set(name, merge(merged.get(name), value));
  }
  return Object.fromEntries(merged);
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A strategic merge patch of a status as a merge patch: conditions are merged by their types. */
export function mergeConditions(before: { readonly status?: Fields } | undefined, patch: Fields): Fields {
  const read = (status: unknown) =>
    ((status as Fields | undefined)?.['conditions'] ?? []) as { type: string }[];
  const status = patch['status'] as Fields | undefined;
  const written = read(status);
  const others = read(before?.status).filter(({ type }) => !written.some((one) => one.type === type));
  return { ...patch, status: { ...status, conditions: [...others, ...written] } };
}
