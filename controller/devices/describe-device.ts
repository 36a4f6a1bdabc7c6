/** What a device's condition says: reasons are published (docs/services-reference.md). */
import { type DeviceState } from '../../lib/devices/driver.ts';
import { DeviceError, type DeviceErrorKind } from '../../lib/devices/device-error.ts';
import { toPrintableLine } from '../../lib/text/printable.ts';
import { findErrorCode } from '../../lib/text/errors.ts';
import { type DeviceReport } from '../cache/device-reports.ts';
import { shorten } from '../cache/object-parts.ts';
import { SecretMissingError } from './credentials.ts';

const kindToReason: Readonly<Record<DeviceErrorKind, Pick<Failure, 'reason'>>> = {
  unreachable: { reason: 'Unreachable' },
  unauthorized: { reason: 'Unauthorized' },
  'no-active-unit': { reason: 'NoActiveUnit' },
  'role-changed': { reason: 'RoleChanged' },
  'foreign-changes': { reason: 'ForeignChanges' },
  refused: { reason: 'Refused' },
  nonsense: { reason: 'AnswerUnexpected' },
};

/** What went wrong, for a condition. */
export interface Failure {
  readonly reason: string;
  readonly message: string;
}

/** Of whatever was thrown. */
export function describeFailure(error: unknown): Failure {
  const text = toPrintableLine(error instanceof Error ? error.message : String(error));
  const message = text.replace(/\.$/, '');
  if (error instanceof DeviceError) return { ...kindToReason[error.kind], message };
  if (error instanceof SecretMissingError) return { reason: 'SecretMissing', message };
  const code = findErrorCode(error);
  if (code === 'DEVICE_SETTINGS_INVALID') return { reason: 'SettingsInvalid', message };
  if (code === 'API_FORBIDDEN' || code === 'API_UNREACHABLE') return { reason: 'CredentialsUnread', message };
  return { reason: 'Failed', message };
}

/** What of a report the device itself says. */
export type Standing = Pick<DeviceReport, 'units' | 'foreignChanges' | 'isReady' | 'reason' | 'message'>;

/** A status has so many of them. */
const maxForeign = 10;

/** The definition takes so many characters. */
const maxText = 1024;

/** How a device does that answers. `unread` says why its credentials could not be read again; null where they could. */
export function describeState(state: DeviceState, unread: Failure | null): Standing {
  const standing = describeUnits(state);
  return unread === null || !standing.isReady ? standing : describeUnread(standing, unread);
}

function describeUnits({ units, foreignChanges: all }: DeviceState): Standing {
  const told = units.map(({ unit, role, isInSync, why }) => ({
    ...{ unit, role, isInSync },
    why: toPrintableLine(why).slice(0, maxText),
  }));
  const active = units.filter(({ role }) => role === 'active').map(({ unit }) => unit);
  const foreignChanges = all.slice(0, maxForeign).map((text) => toPrintableLine(text).slice(0, maxText));
  const seen = { units: told, foreignChanges };
  if (all.length > 0) {
    const changes = shorten(all.map(toPrintableLine));
    const message = `Another user has changed the device, and has not applied it: ${changes}. vipnat changes nothing until then.`;
    return { ...seen, isReady: false, reason: 'ForeignChanges', message };
  }
  if (active.length !== 1) {
    const who =
      active.length === 0 ? 'No unit is active.' : `More than one unit is active: ${active.join(', ')}.`;
    return { ...seen, isReady: false, reason: 'NoActiveUnit', message: who };
  }
  const [first = ''] = active;
  const behind = told.filter(
    ({ role, isInSync }) => role === 'silent' || role === 'unknown' || isInSync === false,
  );
  if (behind.length === 0)
    return { ...seen, isReady: true, reason: 'Ready', message: `The unit ${first} is active.` };
  // Some drivers name the unit themselves.
  const clauses = behind.map(({ unit, role, why }) =>
    why.startsWith(unit) ? why : `${unit} (${why === '' ? describeRole(role) : why})`,
  );
  const message = `The unit ${first} is active. It has no other that could follow it: ${shorten(clauses)}.`;
  return { ...seen, isReady: true, reason: 'NotInSync', message };
}

function describeUnread(standing: Standing, { message }: Failure): Standing {
  const told = `The device works with the credentials that vipnat read before. A controller that starts now has none: ${message}.`;
  return { ...standing, reason: 'CredentialsUnread', message: told };
}

function describeRole(role: string): string {
  return role === 'silent' ? 'it does not answer' : 'it does not have what the active one has';
}
