import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { renderSvg, renderText, round } from './svg.ts';

const page = fileURLToPath(new URL('../../docs/benchmarks.md', import.meta.url));

/** One of the measured figures, in milliseconds. */
interface Figures {
  readonly median: number;
  readonly worst: number;
}

const setUps = { vipnat: 'vipnat', haproxy: 'keepalived + HAProxy' } as const;

/** The faults of the picture in their order, and what people call them. */
const faults: readonly (readonly [fault: string, title: string])[] = [
  ['killed', 'An apiserver is killed'],
  ['stopped', 'An apiserver is stopped'],
  ['frozen', 'An apiserver is frozen'],
  ['blackholed', 'Another master loses its network'],
  ['holder', 'The VIP holder loses its network (*)'],
];

const [left, right, top, rowHeight, barHeight] = [24, 640, 92, 74, 16];

/** The longest figure is below it. */
const limitMs = 12_500;

/** Bars of the table that scripts/bench failover writes into docs/benchmarks.md: the table is the only copy of the figures. */
export function renderFailover(): string {
  const text = readFileSync(page, 'utf8');
  const axis = top + faults.length * rowHeight;
  const ticks = [0, 2, 4, 6, 8, 10, 12];
  const body = [
    renderText([left, 34], 'For how long new connections fail, at 500 a second', 'title'),
    ...renderLegend(58),
    ...ticks.flatMap((second) => [
      `<line class="grid" x1="${toX(second * 1000)}" x2="${toX(second * 1000)}" y1="${top - 16}" y2="${axis}"/>`,
      renderText([toX(second * 1000), axis + 20], `${second} s`, 'small', 'middle'),
    ]),
    ...faults.flatMap(([fault, title], index) => renderFault(text, fault, title, top + index * rowHeight)),
    renderText(
      [left, axis + 48],
      '(*) These rounds used an earlier configuration of keepalived, with both.',
      'small',
    ),
    renderText(
      [left, axis + 68],
      'docs/benchmarks.md has all figures: scripts/bench failover measures them.',
      'small',
    ),
  ];
  const description = faults.map(([fault, title]) => {
    const [ours, theirs] = [
      readFigures(text, fault, setUps.vipnat),
      readFigures(text, fault, setUps.haproxy),
    ];
    return `${title}: ${format(ours.worst)} with vipnat, ${format(theirs.worst)} with HAProxy.`;
  });
  return renderSvg(
    {
      title: 'For how long new connections fail, with vipnat and with keepalived and HAProxy',
      description: `Worst rounds. ${description.join(' ')}`,
    },
    axis + 84,
    body,
  );
}

function renderLegend(y: number): string[] {
  return [
    `<rect class="vipnat" x="${left}" y="${y - 11}" width="14" height="12"/>`,
    renderText([left + 22, y], setUps.vipnat, 'label'),
    `<rect class="haproxy" x="${left + 100}" y="${y - 11}" width="14" height="12"/>`,
    renderText([left + 122, y], setUps.haproxy, 'label'),
    renderText([left + 300, y], 'bar: worst round · line: median', 'small'),
  ];
}

function renderFault(text: string, fault: string, title: string, y: number): string[] {
  const isBehind =
    readFigures(text, fault, setUps.haproxy).worst < readFigures(text, fault, setUps.vipnat).worst;
  return [
    renderText([left, y], isBehind ? `${title}: the worst round of HAProxy is shorter` : title, 'title'),
    ...Object.entries(setUps).flatMap(([color, name], index) => {
      const { median, worst } = readFigures(text, fault, name);
      const barTop = y + 8 + index * (barHeight + 4);
      return [
        `<rect class="${color}" x="${left}" y="${barTop}" width="${round(Math.max(2, toX(worst) - left))}" height="${barHeight}"/>`,
        `<line class="mark" x1="${toX(median)}" x2="${toX(median)}" y1="${barTop - 1}" y2="${barTop + barHeight + 1}"/>`,
        renderText([toX(worst) + 8, barTop + 13], `${format(worst)}, median ${format(median)}`, 'label'),
      ];
    }),
  ];
}

function toX(milliseconds: number): number {
  return round(left + (milliseconds / limitMs) * (right - left));
}

/** The columns `failing p50` and `failing p99` of a row. */
function readFigures(text: string, fault: string, setUp: string): Figures {
  const rows = text.split('<!-- failover:begin -->')[1]?.split('\n') ?? [];
  const cells = rows.map((row) => row.split('|').map((cell) => cell.trim()));
  const [, , , , median = '', worst = ''] =
    cells.find((row) => row[1] === `\`${fault}\`` && row[2] === setUp) ?? [];
  return { median: parse(median), worst: parse(worst) };
}

function parse(cell: string): number {
  const [, figure, unit] = /^([\d.]+)( ms| s)?$/.exec(cell) ?? [];
  if (figure === undefined) throw new Error(`docs/benchmarks.md has no such figure: "${cell}"`);
  return Number(figure) * (unit === ' s' ? 1000 : 1);
}

function format(milliseconds: number): string {
  return milliseconds < 1000 ? `${milliseconds} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}
