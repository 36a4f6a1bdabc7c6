import { type VirtualIp } from '../../lib/services/objects.ts';
import { type World } from './world.ts';

/** The date of the controller before this one may have been ahead by so much. */
const toleratedSkewMs = 2000;

/** Since when nobody has an address; null when that is not known, or lies ahead, as after a date that was wrong. */
export function readReleasedMs({ status }: VirtualIp, { nowMs }: Pick<World, 'nowMs'>): number | null {
  const ms = Date.parse(status?.releasedAt ?? '');
  return Number.isNaN(ms) || ms > nowMs + toleratedSkewMs ? null : ms;
}
