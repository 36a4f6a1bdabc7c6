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

test.each([
  "EMFILE: too many open files, open '/opt/vipnat/vendor/winston.js'",
  "ENFILE: too many open files in system, open '/proc/net/ip_vs'",
  'Cannot read package config /opt/vipnat/vendor/package.json: too many open files..',
])('a want of descriptors is no bug, and says how to have more: %s', (message) => {
  const { text, exitCode } = formatError(new Error(message), false);
  expect(text).toBe(
    `vipnat: ${message.replace('..', '')}. Raise the limit of open files: this process's (ulimit -n, LimitNOFILE= of a unit) or the host's (sysctl fs.file-max)\n`,
  );
  expect(exitCode).toBe(1);
});

test('at debug a bug shows its stack', () => {
  expect(formatError(new TypeError('x'), true).text).toMatch(/internal error: x\nTypeError: x\n +at /);
});
