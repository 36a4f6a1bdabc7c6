import { describe, expect, test } from '@jest/globals';
import { formatError } from '../../../../../cli/format/text/error-text.ts';
import { VipnatError } from '../../../../../lib/text/errors.ts';

const plain = { isDebug: false, isJson: false };
const debug = { isDebug: true, isJson: false };

const failed = new VipnatError('TOOL_FAILED', 'iptables-restore failed: line 3', {
  details: '*nat\nCOMMIT\n',
});

test('a failure is one line with its code, and its exit status that of its code', () => {
  expect(formatError(failed, plain)).toEqual({
    text: 'vipnat: [TOOL_FAILED] iptables-restore failed: line 3\n',
    exitCode: 1,
  });
  expect(formatError(new VipnatError('CONFIG_INVALID', 'a\nb'), plain)).toEqual({
    text: 'vipnat: [CONFIG_INVALID] a\nvipnat: [CONFIG_INVALID] b\n',
    exitCode: 78,
  });
});

test("at debug the tool's own words follow", () => {
  expect(formatError(failed, debug).text).toBe(
    'vipnat: [TOOL_FAILED] iptables-restore failed: line 3\n*nat\nCOMMIT\n',
  );
});

test.each([new TypeError('x is not\na function'), 'x is not a function'])(
  'anything else is a bug, in one line that asks for a report',
  (error) => {
    const { text, exitCode } = formatError(error, plain);
    expect(text).toMatch(
      /^vipnat: \[INTERNAL_ERROR\] x is not a function\. This is a bug\. .*--log-level debug\n$/,
    );
    expect(exitCode).toBe(1);
  },
);

test.each([
  "EMFILE: too many open files, open '/opt/vipnat/vendor/winston.js'",
  "ENFILE: too many open files in system, open '/proc/net/ip_vs'",
  'Cannot read package config /opt/vipnat/vendor/package.json: too many open files..',
])('a want of descriptors is no bug, and says how to have more: %s', (message) => {
  const { text, exitCode } = formatError(new Error(message), plain);
  expect(text).toBe(
    `vipnat: [DESCRIPTORS_EXHAUSTED] ${message.replace('..', '')}. Raise the limit of open files: this process's (ulimit -n, LimitNOFILE= of a unit) or the host's (sysctl fs.file-max)\n`,
  );
  expect(exitCode).toBe(1);
});

test('at debug a bug shows its stack', () => {
  expect(formatError(new TypeError('x'), debug).text).toMatch(/\[INTERNAL_ERROR\] x\nTypeError: x\n +at /);
});

describe('where the log is JSON', () => {
  const readLines = (error: unknown, isDebug = false) =>
    formatError(error, { isDebug, isJson: true })
      .text.trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);

  test('each line is a line of the log, with the code as a field', () => {
    expect(readLines(new VipnatError('CONFIG_INVALID', 'a\nb'))).toEqual([
      { time: expect.any(String), level: 'error', msg: 'a', code: 'CONFIG_INVALID' },
      { time: expect.any(String), level: 'error', msg: 'b', code: 'CONFIG_INVALID' },
    ]);
  });

  test("at debug the tool's own words are a field of the last line", () => {
    expect(readLines(failed)).toEqual([expect.not.objectContaining({ details: expect.anything() })]);
    expect(readLines(failed, true)).toMatchObject([{ code: 'TOOL_FAILED', details: '*nat\nCOMMIT' }]);
  });

  test('a bug has a code too', () => {
    expect(readLines(new TypeError('x'))).toMatchObject([
      { msg: expect.stringMatching(/^x\. This is a bug/), code: 'INTERNAL_ERROR' },
    ]);
  });
});
