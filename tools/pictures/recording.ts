import { type Caption, escape, renderSvg, round, width } from './svg.ts';

/** What a row of the terminal shows from a moment on; a row keeps its text until the next one. Text can have colours of a terminal. */
export interface Change {
  readonly atMs: number;
  readonly row: number;
  readonly text: string;
}

/** A recording: so many rows, and when it ends; its changes are in the order of time. */
export interface Recording extends Caption {
  /** In the bar of the window. */
  readonly windowTitle: string;
  readonly rows: number;
  readonly endMs: number;
  /** What somebody sees whose reader moves nothing. */
  readonly posterMs: number;
  readonly changes: readonly Change[];
}

/** The last frame stays so long before it begins again. */
const pauseMs = 4000;

const [barHeight, rowHeight, left] = [34, 18, 20];

const style = `text { font: 12.5px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
.page { fill: #ffffff; stroke: #d0d7de } .bar { fill: #f6f8fa } .dot { fill: #afb8c1 } .name { fill: #59636e }
.green { fill: #116329 } .yellow { fill: #7d4e00; font-weight: 700 } .red { fill: #cf222e; font-weight: 700 } .bold { font-weight: 700 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .page { fill: #0d1117; stroke: #3d444d } .bar { fill: #151b23 } .dot { fill: #656c76 } .name { fill: #a8b3bf }
.green { fill: #3fb950 } .yellow { fill: #e3b341 } .red { fill: #ff7b72 } }
.f { visibility: hidden; animation: none step-end infinite } .p { visibility: visible }
@media (prefers-reduced-motion: reduce) { .f { animation: none !important } }`;

/** An animated SVG of it, without a script. Pure. */
export function renderRecording(recording: Recording): string {
  const { windowTitle, rows, endMs, posterMs } = recording;
  const totalMs = endMs + pauseMs;
  const spans = listSpans(recording, totalMs);
  const names = [...new Set(spans.map(nameKeyframes))];
  const keyframes = names.map((name, index) => renderKeyframes(name, index, totalMs));
  const height = barHeight + rows * rowHeight + 20;
  const body = [
    `<path class="bar" d="M1 ${barHeight}V9a8 8 0 0 1 8 -8H${width - 9}a8 8 0 0 1 8 8V${barHeight}z"/>`,
    ...[0, 1, 2].map((index) => `<circle class="dot" cx="${left + index * 18}" cy="18" r="5"/>`),
    `<text class="name" x="${width / 2}" y="22" text-anchor="middle">${escape(windowTitle)}</text>`,
    ...spans.map((span) => {
      const isPoster = span.fromMs <= posterMs && posterMs < span.toMs;
      const kind = `f k${names.indexOf(nameKeyframes(span))}${isPoster ? ' p' : ''}`;
      const y = barHeight + 20 + span.row * rowHeight;
      return `<text class="${kind}" x="${left}" y="${y}">${renderColours(span.text)}</text>`;
    }),
  ];
  const duration = `.f { animation-duration: ${totalMs / 1000}s }`;
  return renderSvg(recording, height, body, [style, duration, ...keyframes].join('\n'));
}

interface Span {
  readonly row: number;
  readonly text: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** What each row shows from when until when; nothing for empty rows. */
function listSpans({ changes, rows }: Recording, totalMs: number): Span[] {
  return Array.from({ length: rows }, (_, row) => {
    const own = changes.filter((change) => change.row === row);
    const distinct = own.filter(({ text }, index) => text !== own[index - 1]?.text);
    return distinct.map(({ text, atMs }, index) => ({
      ...{ row, text, fromMs: roundTime(atMs) },
      toMs: roundTime(distinct[index + 1]?.atMs ?? totalMs),
    }));
  })
    .flat()
    .filter(({ text, fromMs, toMs }) => text !== '' && fromMs < toMs);
}

/** Rows that change within the same tenth of a second share what moves them. */
function roundTime(ms: number): number {
  return Math.max(0, Math.round(ms / 100) * 100);
}

function nameKeyframes({ fromMs, toMs }: Span): string {
  return `${fromMs}-${toMs}`;
}

function renderKeyframes(name: string, index: number, totalMs: number): string {
  const [from = 0, to = 0] = name.split('-').map((ms) => round((Number(ms) / totalMs) * 1000) / 10);
  const begin = from === 0 ? '0%{visibility:visible}' : `0%{visibility:hidden}${from}%{visibility:visible}`;
  const end = to >= 100 ? '100%{visibility:visible}' : `${to}%,100%{visibility:hidden}`;
  return `.k${index}{animation-name:k${index}}@keyframes k${index}{${begin}${end}}`;
}

const codeToClass: Readonly<Record<string, string>> = { 1: 'bold', 31: 'red', 32: 'green', 33: 'yellow' };

/** Parts in the colours of a terminal, as vipnat and this recording use them. */
function renderColours(text: string): string {
  const [first = '', ...parts] = text.split('\u001b[');
  const coloured = parts.map((part) => {
    const [, code = '', words = ''] = /^(\d+)m([^]*)$/.exec(part) ?? [];
    const name = codeToClass[code];
    return name === undefined ? escape(words) : `<tspan class="${name}">${escape(words)}</tspan>`;
  });
  return escape(first) + coloured.join('');
}
