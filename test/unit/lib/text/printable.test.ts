import { describe, expect, test } from '@jest/globals';
import { VipnatError } from '../../../../lib/text/errors.ts';
import { toPrintable, toPrintableJson, toPrintableLine } from '../../../../lib/text/printable.ts';

describe('what others say, as it is printed', () => {
  test.each([
    ['\u001b[2J\u001b[31mred', String.raw`\u001b[2J\u001b[31mred`],
    ['\u009b31m', String.raw`\u009b31m`],
    ['a\rb\0c\u007f', String.raw`a\u000db\u0000c\u007f`],
    ['\u202etxt.exe \u2028', String.raw`\u202etxt.exe \u2028`],
    ['\ud800', String.raw`\ud800`],
    ['10.0.0.50:6443 · größer – 𝕳', '10.0.0.50:6443 · größer – 𝕳'],
    ['*nat\n\tCOMMIT\n', '*nat\n\tCOMMIT\n'],
  ])('%j cannot move a cursor, colour or turn round what follows', (text, printed) => {
    expect(toPrintable(text)).toBe(printed);
  });

  test('as a line has no second one', () => {
    expect(toPrintableLine('it\n  failed\n')).toBe('it failed');
    expect(toPrintableLine('  indented')).toBe('  indented');
  });

  test('as JSON is the same value', () => {
    const value = { text: '\u001b \u009b \u202e \u2028', list: ['\n'] };
    expect(toPrintableJson(value, 2)).not.toMatch(/[\u009b\u202e\u2028]/u);
    expect(JSON.parse(toPrintableJson(value))).toEqual(value);
  });

  test('is so in the message of every error', () => {
    expect(new VipnatError('TOOL_FAILED', 'nft failed: \u001b]0;title\u0007').message).toBe(
      String.raw`nft failed: \u001b]0;title\u0007`,
    );
  });
});
