import { describe, expect, test } from '@jest/globals';
import { readScreen } from '../../../../../cli/format/text/screen.ts';
import { type Environment } from '../../../../../config/environment.ts';

const terminal = { isTerminal: true, columns: 120 };
const pipe = { isTerminal: false, columns: null };
const onTerminal = (environment: Environment) => readScreen(environment, terminal, 'auto');

describe('a screen', () => {
  test('is as wide as its terminal, from 60 to 200 columns, or as COLUMNS says', () => {
    expect(onTerminal({}).width).toBe(120);
    expect(readScreen({}, { isTerminal: true, columns: 20 }, 'auto').width).toBe(60);
    expect(readScreen({}, { isTerminal: true, columns: 400 }, 'auto').width).toBe(200);
    expect(onTerminal({ COLUMNS: '90' }).width).toBe(90);
    expect(onTerminal({ COLUMNS: 'wide' }).width).toBe(120);
  });

  test('of a pipe has no width, unless COLUMNS says one', () => {
    expect(readScreen({}, pipe, 'auto').width).toBeNull();
    expect(readScreen({ COLUMNS: '100' }, pipe, 'auto').width).toBe(100);
    expect(readScreen({}, { isTerminal: true, columns: null }, 'auto').width).toBeNull();
  });

  test('is coloured on a terminal, but with NO_COLOR, TERM=dumb or --color never', () => {
    expect(onTerminal({ TERM: 'xterm' }).isColoured).toBe(true);
    expect(onTerminal({ NO_COLOR: '' }).isColoured).toBe(true);
    expect(onTerminal({ NO_COLOR: '1' }).isColoured).toBe(false);
    expect(onTerminal({ TERM: 'dumb' })).toMatchObject({ isColoured: false, isTerminal: false });
    expect(readScreen({}, terminal, 'never').isColoured).toBe(false);
    expect(readScreen({}, pipe, 'auto').isColoured).toBe(false);
    expect(readScreen({ NO_COLOR: '1' }, pipe, 'always').isColoured).toBe(true);
  });

  test.each([
    [{}, true],
    [{ LANG: 'C' }, false],
    [{ LANG: 'POSIX' }, false],
    [{ LANG: 'de_DE@euro' }, false],
    [{ LANG: 'en_US.UTF-8' }, true],
    [{ LC_ALL: 'C', LANG: 'en_US.UTF-8' }, false],
    [{ LC_ALL: '', LC_CTYPE: 'C.utf8', LANG: 'C' }, true],
  ])('with %j can show Unicode: %p', (environment, isUnicode) => {
    expect(onTerminal(environment).isUnicode).toBe(isUnicode);
  });
});
