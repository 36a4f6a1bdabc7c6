import { expect, test } from '@jest/globals';
import { formatError } from '../../../../agent/cli/error-text.ts';
import { VipnatError } from '../../../../lib/errors.ts';

const failed = new VipnatError('TOOL_FAILED', 'iptables-restore failed: line 3', {
  details: '*nat\nCOMMIT\n',
});

test('a failure is one line, and its exit status that of its code', () => {
  expect(formatError(failed, false)).toEqual({
    text: 'vipnat: iptables-restore failed: line 3\n',
    exitCode: 1,
  });
  expect(formatError(new VipnatError('CONFIG_INVALID', 'a\nb'), false)).toEqual({
    text: 'vipnat: a\nvipnat: b\n',
    exitCode: 78,
  });
});

test("at debug the tool's own words follow", () => {
  expect(formatError(failed, true).text).toBe('vipnat: iptables-restore failed: line 3\n*nat\nCOMMIT\n');
});

test.each([new TypeError('x is not\na function'), 'x is not a function'])(
  'anything else is a bug, in one line that asks for a report',
  (error) => {
    const { text, exitCode } = formatError(error, false);
    expect(text).toMatch(
      /^vipnat: internal error: x is not a function\. This is a bug: .*--log-level debug\n$/,
    );
    expect(exitCode).toBe(1);
  },
);

test('at debug a bug shows its stack', () => {
  expect(formatError(new TypeError('x'), true).text).toMatch(/internal error: x\nTypeError: x\n +at /);
});
