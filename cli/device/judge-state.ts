import { type DeviceState } from '../../lib/devices/driver.ts';

/** Whether a person should see to it: not one unit is active, another is behind, or changes of other users wait. */
export function isStateInTrouble({ units, foreignChanges }: DeviceState): boolean {
  const active = units.filter(({ role }) => role === 'active');
  const isBehind = units.some(({ isInSync }) => isInSync === false);
  const isSilent = units.some(({ role }) => role === 'silent' || role === 'unknown');
  return active.length !== 1 || isBehind || isSilent || foreignChanges.length > 0;
}
