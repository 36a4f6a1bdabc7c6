import { type Environment } from '../../../config/environment.ts';

/** When to colour, the default first: `auto` is on a terminal that can, unless NO_COLOR is set. */
export const colourChoices = ['auto', 'always', 'never'] as const;

/** One of colourChoices. */
export type ColourChoice = (typeof colourChoices)[number];

/** What standard output is. */
export interface Terminal {
  readonly isTerminal: boolean;
  /** How wide it is; null where it does not say. */
  readonly columns: number | null;
}

/** What can be shown to whoever reads standard output. */
export interface Screen {
  /** A terminal that follows escape sequences. */
  readonly isTerminal: boolean;
  /** Columns, 60 to 200; null where nobody says, so nothing but long prose is broken. */
  readonly width: number | null;
  readonly isColoured: boolean;
  /** Whether characters outside ASCII can be read there. */
  readonly isUnicode: boolean;
}

/** A file or a pipe. */
export const plainScreen: Screen = { isTerminal: false, width: null, isColoured: false, isUnicode: true };

/** Where nobody says how wide it is, prose is broken here. */
export const proseWidth = 80;

/** What no screen needs less or more of. */
const leastWidth = 60;
const mostWidth = 200;

/**
 * What can be shown: COLUMNS counts before the terminal's size, and a choice on the command line before NO_COLOR and TERM.
 * Without any locale Unicode is shown: containers have none, and their terminals are of people who do.
 */
export function readScreen(environment: Environment, terminal: Terminal, choice: ColourChoice): Screen {
  const isTerminal = terminal.isTerminal && environment['TERM'] !== 'dumb';
  const columns = readColumns(environment) ?? (terminal.isTerminal ? terminal.columns : null);
  const isAllowed = (environment['NO_COLOR'] ?? '') === '';
  return {
    isTerminal,
    width: columns === null ? null : Math.min(mostWidth, Math.max(leastWidth, columns)),
    isColoured: choice === 'always' || (choice === 'auto' && isTerminal && isAllowed),
    isUnicode: isUnicode(environment),
  };
}

function readColumns({ COLUMNS: text = '' }: Environment): number | null {
  return /^[1-9]\d{0,5}$/.test(text) ? Number(text) : null;
}

/** By the variables that POSIX has for characters, in its order. */
function isUnicode(environment: Environment): boolean {
  const locale = ['LC_ALL', 'LC_CTYPE', 'LANG']
    .map((name) => environment[name] ?? '')
    .find((text) => text !== '');
  return locale === undefined || /utf-?8/i.test(locale);
}
