import { expect, test } from '@jest/globals';
import { LookLog } from '../../../../balancer/process/look-log.ts';
import { createRecordingLogger } from '../../../support/fakes/logger.ts';
import { makePortBalance } from '../../../support/fakes/port-balance.ts';

test('a Service of a thousand ports has a short line for each change, also of the last port', () => {
  const logger = createRecordingLogger();
  const log = new LookLog(logger);
  const list = (last: string) =>
    Array.from({ length: 1000 }, (_, at) =>
      makePortBalance(at === 999 ? [{ address: last, port: 80 }] : [], { port: at + 1 }),
    );
  log.balanced(new Map([['default/web', list('10.244.1.2')]]));
  log.balanced(new Map([['default/web', []]]));
  log.balanced(new Map([['default/web', [...list('10.244.1.2')].reverse()]]));
  const lines = logger.lines.map(({ message }) => message);
  expect(lines.map((line) => line.length < 300)).toEqual([true, true, true]);
  expect(lines[0]).toMatch(/^default\/web is balanced: .* and 995 more ports$/);
  expect(lines[2]).toContain('10.0.9.10:1000 TCP to 1 endpoint');
});
