import type { TopicOutcome } from '../../../../cli/doctor/examine.ts';
import { describe, test, expect } from '@jest/globals';
import { formatDoctor, formatDoctorJson, chooseDoctorStatus } from '../../../../cli/commands/doctor.ts';

const topics: readonly TopicOutcome[] = [
  {
    name: 'forwarding',
    outcomes: [
      { code: 'a', level: 'ok' },
      { code: 'b', level: 'warn', title: 'a warning', why: 'It may matter.', remedy: ['mend b'] },
      {
        code: 'c',
        level: 'fail',
        title: 'something of which there is so much to tell that it does not go into one line of eighty',
        why: 'It does matter, and that is a long story as well: one of those that take a second line.',
        remedy: ['# first', `mend c --with ${'x'.repeat(100)}`],
      },
    ],
  },
  {
    name: 'kube-proxy',
    outcomes: [
      { code: 'd', level: 'skipped', reason: 'it is not seen' },
      { code: 'e', level: 'skipped', reason: 'it is not seen' },
    ],
  },
];

describe('what doctor prints', () => {
  test('is what is well in short, then failures, warnings, what was not checked, and the sum', () => {
    expect(formatDoctor(topics, false)).toBe(` ok    forwarding${' '.repeat(56)}1 check
 FAIL  something of which there is so much to tell that it does not go into one
       line of eighty
         It does matter, and that is a long story as well: one of those that
         take a second line.
         # first
         mend c --with ${'x'.repeat(100)}
 WARN  a warning
         It may matter.
         mend b
 --    not checked: d, e
         it is not seen

1 failure, 1 warning, 1 ok, 2 not checked
`);
  });

  test('says of a topic that is not on this host that it is not, and counts nothing of it', () => {
    expect(formatDoctor([{ name: 'Services', outcomes: [] }], false)).toBe(
      ' --    Services: not on this host\n\n0 failures, 0 warnings, 0 ok\n',
    );
  });

  test('with --all names what is well', () => {
    expect(formatDoctor(topics, true)).toMatch(/^ ok {4}forwarding\n {9}a\n/);
  });

  test('as JSON has its version first, and every check with its topic and code', () => {
    const text = formatDoctorJson({ stage: 'installed', topics, next: [] }, 'm1');
    expect(text).toMatch(/^\{\n {2}"version": 1,/);
    expect(JSON.parse(text)).toMatchObject({
      ...{ node: 'm1', failures: 1, warnings: 1, ok: 1, skipped: 2 },
      checks: [
        { topic: 'forwarding', code: 'a', level: 'ok' },
        { code: 'b', remedy: ['mend b'] },
        { code: 'c' },
        { topic: 'kube-proxy', code: 'd', reason: 'it is not seen' },
        { code: 'e' },
      ],
    });
  });
});

test.each([
  [{ failures: 0, warnings: 0, ok: 40, skipped: 0, pending: 0 }, 0],
  // What could not be found out is no finding, and no failure of doctor's.
  [{ failures: 0, warnings: 0, ok: 0, skipped: 40, pending: 7 }, 0],
  [{ failures: 0, warnings: 1, ok: 39, skipped: 0, pending: 0 }, 2],
  [{ failures: 1, warnings: 0, ok: 39, skipped: 0, pending: 0 }, 3],
  [{ failures: 1, warnings: 1, ok: 38, skipped: 0, pending: 0 }, 3],
])('%j ends with %d, never with 1, which is that doctor could not look', (counts, status) => {
  expect(chooseDoctorStatus(counts)).toBe(status);
});
