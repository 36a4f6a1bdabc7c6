import { type ErrorCode, VipnatError } from '../text/errors.ts';

/** The answer goes on, and no part of it comes: of a frozen server, or one that has nothing to say. */
export class SilenceError extends Error {}

/** The version that a watch was to go on from is too old (410): everything has to be listed anew. */
export class VersionGoneError extends Error {}

/** What was answered is not what was asked for; the message is a phrase for after the question's name. */
export class NonsenseError extends Error {}

/** An answer is longer than it may be. */
export class TooLongError extends NonsenseError {}

/** An answer did not begin, or did not end, in time. */
export class LateError extends Error {}

/** Foreign words as they are safe in a line: one line, cut short. */
export function quoteForeign(text: string): string {
  const line = text.replaceAll(/[^\x20-\x7e]+/g, ' ').trim();
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
}

/** An answer says more than none does, and a refusal more than a fault. */
const telling: readonly ErrorCode[] = ['API_FORBIDDEN', 'API_ANSWER_UNEXPECTED', 'API_UNTRUSTED'];

/** Of two problems of one round, the one that tells more; the earlier one where both tell as much. */
export function chooseTelling(before: VipnatError | null, problem: VipnatError): VipnatError {
  const rank = ({ code }: VipnatError) => (telling.includes(code) ? telling.indexOf(code) : telling.length);
  return before !== null && rank(before) <= rank(problem) ? before : problem;
}

/** A fault of ours must not end the agent: the API is only one source. */
export function toInternal(error: unknown): VipnatError {
  const { message } = error as Error;
  return new VipnatError('API_ANSWER_UNEXPECTED', `following the API failed: ${message}`, { cause: error });
}

/** An object that is not as it should be: it is left out, and stops nothing else. */
export interface Unreadable {
  /** `NAMESPACE/NAME`, or the name alone of an object without a namespace. */
  readonly key: string;
  readonly version: string;
  /** The field that is not as it should be: `status.conditions.0.status`. */
  readonly why: string;
}

/** That an object cannot be read, as a line for people. */
export function describeUnreadable(kind: string, { key, why }: Unreadable): string {
  const what = why === '' ? 'it' : `its field ${why}`;
  return `vipnat cannot read the ${kind} ${key}: ${what} is not as the Kubernetes API defines it. vipnat leaves out this change, and follows all other objects`;
}
