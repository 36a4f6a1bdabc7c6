import { styleText } from 'node:util';
import { toAscii, toPrintableLine } from '../../../lib/text/printable.ts';
import { type Screen } from './screen.ts';
import { wrap } from './wrap.ts';

/** How a state is coloured. The word says the same without colour. */
export type Tone = 'good' | 'doubtful' | 'bad';

const toneToColour = { good: 'green', doubtful: 'yellow', bad: 'red' } as const;

/** A text with its tone, if it has one. */
export interface Part {
  readonly text: string;
  readonly tone?: Tone | undefined;
}

/** A text as one line that this screen can show, whoever wrote it. */
export function clean(text: string, { isUnicode }: Screen): string {
  const line = toPrintableLine(text);
  return isUnicode ? line : toAscii(line);
}

/** A clean text in its tone. */
export function paint(text: string, tone: Tone | undefined, { isColoured }: Screen): string {
  if (!isColoured || tone === undefined || text === '') return text;
  return styleText(toneToColour[tone], text, { validateStream: false });
}

/** Parts behind a head, with a dot between, as lines: a part that does not fit begins the next one below the first part. */
export function layOutParts(head: string, parts: readonly Part[], screen: Screen): string[] {
  const dot = clean(' · ', screen);
  const lines: { text: string; length: number }[] = [{ text: head, length: head.length }];
  for (const [index, { text, tone }] of parts.entries()) {
    const word = clean(text, screen);
    const last = lines.at(-1) ?? { text: '', length: 0 };
    const gap = index === 0 ? '' : dot;
    const length = last.length + gap.length + word.length;
    const painted = paint(word, tone, screen);
    if (index > 0 && length > (screen.width ?? Infinity)) {
      lines.push({ text: `${' '.repeat(head.length)}${painted}`, length: head.length + word.length });
    } else {
      lines[lines.length - 1] = { text: `${last.text}${gap}${painted}`, length };
    }
  }
  return lines.map(({ text }) => text);
}

/** Prose behind a head, as lines: what does not fit stands below the beginning of the prose. */
export function layOutText(head: string, text: string, screen: Screen): string[] {
  const width = screen.width === null ? null : screen.width - head.length;
  const [first = '', ...more] = wrap(clean(text, screen), width);
  return [`${head}${first}`, ...more.map((line) => `${' '.repeat(head.length)}${line}`)];
}
