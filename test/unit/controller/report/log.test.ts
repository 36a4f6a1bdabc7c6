import { FakeClock } from '../../../support/fakes/clock.ts';
import { createRecordingLogger } from '../../../support/fakes/logger.ts';
import { RecordingEvents } from '../../../support/fakes/events.ts';
import { ControllerLog } from '../../../../controller/report/log.ts';
import { test, expect } from '@jest/globals';

const key = { kind: 'Service', key: 'shop/web' } as const;
const web = { apiVersion: 'v1', kind: 'Service', namespace: 'shop', name: 'web', uid: 'web' };
const webhook = {
  result: 'unknown',
  detail: 'changing Service shop/web failed: 500, failed calling webhook',
  version: null,
} as const;
const stale = { result: 'stale', detail: 'it has changed', version: null } as const;

function createLog() {
  const [clock, logger, events] = [new FakeClock(), createRecordingLogger(), new RecordingEvents()];
  const log = new ControllerLog(logger, events, clock);
  const warnings = () => logger.lines.filter(({ level }) => level === 'warn').map(({ message }) => message);
  return { clock, events, log, warnings };
}

test('a write that goes on failing is told at its third failure and once an hour, also with other outcomes in between', async () => {
  const { clock, events, log, warnings } = createLog();
  for (const [failures, outcome] of [webhook, webhook, stale, webhook, webhook].entries())
    log.onFailed(key, outcome, failures, web);
  expect(warnings()).toEqual([`Service/shop/web: ${webhook.detail}. vipnat tries again`]);
  expect(events.recorded).toEqual([`WriteFailed ${webhook.detail}.`]);
  await clock.advance(3_600_000);
  log.onFailed(key, webhook, 5, web);
  expect(warnings()).toHaveLength(2);
  log.onWritten(key, null, web);
  for (const failures of [0, 1]) log.onFailed(key, webhook, failures, web);
  expect(warnings()).toHaveLength(2);
  log.onFailed(key, webhook, 2, web);
  expect(warnings()).toHaveLength(3);
});

test('while the Lease cannot be used that is told alone; again once it could', async () => {
  const { clock, log, warnings } = createLog();
  const away = { outcome: 'unreachable', detail: 'no answer' };
  for (let turn = 0; turn < 30; turn += 1) {
    log.onLeaseProblem(away);
    log.onFailed(key, webhook, turn, web);
    await clock.advance(10_000);
  }
  expect(warnings()).toEqual([expect.stringContaining('cannot use its Lease: no answer')]);
  await clock.advance(30_000);
  log.onFailed(key, webhook, 30, web);
  log.onLeaseProblem(away);
  expect(warnings()).toHaveLength(3);
});
