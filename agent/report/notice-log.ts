import { type Logger } from '../../lib/telemetry/logger.ts';
import { type Notice, type VrrpState } from '../../lib/keepalived/notices.ts';

/** Tells the log what state keepalived says that an instance of it is in. */
export function sayNotice(logger: Logger, { instance, state }: Notice, before: VrrpState | null): void {
  const change = before === null ? `is ${state}` : `${before} -> ${state}`;
  logger[state === 'FAULT' ? 'warn' : 'info'](`keepalived: ${instance} ${change}`);
}
