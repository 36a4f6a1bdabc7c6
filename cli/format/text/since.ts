import { formatAge } from '../../../lib/text/age.ts';

/** How long ago something was that the API has the date of. */
export function formatSince(since: string | null, nowMs: number): string {
  const ms = nowMs - Date.parse(since ?? '');
  return Number.isNaN(ms) ? '' : formatAge(Math.max(0, ms));
}
