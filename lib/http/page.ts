import { toPrintableLine } from '../text/printable.ts';

/** What a page answers. */
export interface Answer {
  readonly status: number;
  /** As in `content-type`. */
  readonly type: string;
  readonly text: string;
}

/** Makes a page anew for each question, with what stands behind its path. One that rejects is answered with 500. */
export type Page = (query: URLSearchParams) => Answer | Promise<Answer>;

/** One line. */
export function toText(status: number, line: string): Answer {
  return { status, type: 'text/plain; charset=utf-8', text: `${toPrintableLine(line)}\n` };
}
