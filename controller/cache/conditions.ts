import { type Condition } from '../../lib/services/metadata.ts';
import { addressReady } from '../../lib/services/names.ts';
import { type VirtualIp } from '../../lib/services/objects.ts';
import { type Service } from '../../lib/services/services.ts';

/** What a condition is to say. `lastTransitionTime` follows from what it said before. */
export interface WantedCondition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number;
}

/** What the API takes of a message. Source: meta/v1, Condition. */
const maxMessage = 32_768;

/** The conditions with one that is as wanted, or without it; the same array when it is so already. */
export function setCondition(
  conditions: readonly Condition[],
  { message, ...others }: WantedCondition,
  nowMs: number,
): readonly Condition[] {
  const wanted = { ...others, message: message.slice(0, maxMessage) };
  const before = findCondition(conditions, wanted.type);
  if (before !== null && saysSame(before, wanted)) return conditions;
  const isSameStatus = before?.status === wanted.status && typeof before.lastTransitionTime === 'string';
  const lastTransitionTime = isSameStatus ? before.lastTransitionTime : toTime(nowMs);
  const after: Condition = { ...wanted, lastTransitionTime };
  return before === null
    ? [...conditions, after]
    : conditions.map((each) => (each === before ? after : each));
}

/** The condition of a type. */
export function findCondition(conditions: readonly Condition[], type: string): Condition | null {
  return conditions.find((each) => each.type === type) ?? null;
}

/** As the API writes moments: RFC 3339, whole seconds. */
export function toTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** What is said of how a Service stands. */
export function findReadiness({ status }: Pick<Service, 'status'>): Condition | null {
  return findCondition(status?.conditions ?? [], addressReady);
}

/** Whether something is: a Service that has just been made may get an address within the second. */
export function isJudged(service: Pick<Service, 'status'>): boolean {
  return findReadiness(service) !== null;
}

/** Whether another host answers for an address. */
export function isInUse({ status }: Pick<VirtualIp, 'status'>): boolean {
  return findCondition(status?.conditions ?? [], 'AddressInUse')?.status === 'True';
}

/** Whether every living candidate had an address as it is now: its Services, its seat. */
export function isProgrammed({ metadata, status }: VirtualIp): boolean {
  const programmed = findCondition(status?.conditions ?? [], 'Programmed');
  return programmed?.status === 'True' && programmed.observedGeneration === metadata.generation;
}

function saysSame(
  before: Condition,
  { status, reason, message, observedGeneration }: WantedCondition,
): boolean {
  return (
    before.status === status &&
    before.reason === reason &&
    before.message === message &&
    (before.observedGeneration ?? undefined) === observedGeneration
  );
}

/** The first three of some names, and how many more there are. */
export function shorten(names: readonly string[]): string {
  const rest = names.length - 3;
  return `${names.slice(0, 3).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/** That what vipnat writes does not stay, for people: who else writes, by the names of field managers, if any is known. */
export function describeContest(managers: readonly string[]): string {
  const who = managers.length === 0 ? 'Another program' : `Another program (${shorten(managers)})`;
  return `${who} undoes what vipnat writes into this object. vipnat writes it once a minute.`;
}
