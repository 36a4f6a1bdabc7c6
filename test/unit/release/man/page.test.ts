import { renderManualPage } from '../../../../tools/release/man/page.ts';
import { describe, test, expect } from '@jest/globals';
import { commandNames } from '../../../../cli/table.ts';
import { optionNames, nameFlag, nameVariable } from '../../../../config/options.ts';
import { escapeRoff, paragraphs } from '../../../../tools/release/man/roff.ts';

const page = await renderManualPage({ version: '1.2.3', epoch: 1_767_225_600 });

describe('vipnat.1', () => {
  test('has the version and the day of the commit', () => {
    expect(page.split('\n', 1)).toEqual(['.TH VIPNAT 1 "2026-01-01" "vipnat 1.2.3" "User Commands"']);
  });

  test.each(commandNames)('has a part about %s', (name) => {
    expect(page).toMatch(new RegExp(`^\\.SS "vipnat ${name}[ "]`, 'm'));
  });

  test.each(optionNames)('explains %s once, with its variable and its key', (name) => {
    const flag = escapeRoff(nameFlag(name));
    expect(page.split('\n').filter((line) => line.startsWith(String.raw`\fB${flag} `))).toHaveLength(1);
    expect(page.replaceAll('\n', ' ')).toContain(
      `Environment variable: ${nameVariable(name)}. Key in a file: ${name}.`,
    );
  });

  test('has lines that manual pages may have', () => {
    const filled = page.replaceAll(/^\.nf\n[^]*?^\.fi$/gm, '');
    expect(filled.split('\n').filter((line) => line.length > 80)).toEqual([]);
    expect(page.match(/\P{ASCII}/gu)).toBeNull();
  });
});

describe('text of a manual page', () => {
  test('is no request and no escape, whatever it begins with', () => {
    expect(escapeRoff(".so /etc/passwd\n'br \\n -1")).toBe(
      String.raw`\&.so /etc/passwd` + '\n' + String.raw`\(aqbr \en \-1`,
    );
  });

  test('keeps the lines of examples, and fills others', () => {
    expect(paragraphs('Examples:\n  a b\n  c\n\none\ntwo. Exit status: 0 done.')).toBe(
      '.PP\nExamples:\n.PP\n.RS 4\n.nf\na b\nc\n.fi\n.RE\n.PP\none two.\n.br\nExit status: 0 done.\n',
    );
  });
});
