import type { Spread } from '../shared/statistics.ts';

/** One way on the chart. */
export interface Series {
  readonly title: string;
  /** A class of the style below. */
  readonly color: 'vipnat' | 'vipnat-direct' | 'haproxy' | 'kube-proxy';
  /** For each number of clients; null where nothing is on record. */
  readonly ratios: readonly (Spread | null)[];
  /** Microseconds; null where nothing is on record. */
  readonly processor: Spread | null;
}

/** What the chart shows. */
export interface Chart {
  readonly clients: readonly number[];
  readonly series: readonly Series[];
}

const size = { width: 900, height: 424 };

/** Where the two plots are. */
const lines = { left: 48, right: 470, top: 64, bottom: 340 };
const bars = { left: 674, right: 872, top: 64, bottom: 340 };

/** Where the bars' names begin. */
const barTitles = 520;

/** Colours that are told apart in light and dark, also by those who see no red or green: blue, light blue, orange, grey. */
const style = `text { font: 13px system-ui, sans-serif; fill: #24292f; stroke: none }
.title { font-weight: 600 } .note { font-size: 12px; fill: #57606a }
.axis { stroke: #57606a; fill: none } .grid { stroke: #d0d7de } .even { stroke: #57606a; stroke-dasharray: 4 3 }
.range { stroke-width: 1.5; opacity: .6 }
${renderColors(['#0550ae', '#54aeff', '#bc4c00', '#8c959f'])}
.line { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .note { fill: #9198a1 } .axis, .even { stroke: #9198a1 } .grid { stroke: #3d444d }
${renderColors(['#1f6feb', '#a5d6ff', '#f0883e', '#8b949e'])}
.line { fill: none } }`;

function renderColors(colors: readonly string[]): string {
  const names: Series['color'][] = ['vipnat', 'vipnat-direct', 'haproxy', 'kube-proxy'];
  return names
    .map((name, index) => `.${name} { stroke: ${colors[index] ?? ''}; fill: ${colors[index] ?? ''} }`)
    .join('\n');
}

/** An SVG picture of new connections: p50 by numbers of clients, and processor time, both beside straight access. */
export function renderChart({ clients, series }: Chart): string {
  const ratios = series.flatMap(({ ratios: some }) => some).filter((spread) => spread !== null);
  const costs = series.map(({ processor }) => processor).filter((spread) => spread !== null);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${size.height}" role="img">`,
    '<title>New connections: p50 and processor time compared with straight access</title>',
    `<style>${style}</style>`,
    ...renderRatios(clients, series, chooseTicks(Math.max(2, ...ratios.map(({ max }) => max)))),
    ...renderLegend(series),
    ...renderCosts(series, chooseTicks(Math.max(1, ...costs.map(({ max }) => max)))),
    '</svg>',
    '',
  ].join('\n');
}

/** Round numbers from 0 to above the greatest, four to nine of them. */
export function chooseTicks(greatest: number): number[] {
  const power = 10 ** Math.floor(Math.log10(greatest));
  const step = [0.2, 0.5, 1, 2].map((part) => part * power).find((one) => greatest / one <= 8) ?? power * 2;
  const count = Math.ceil(greatest / step);
  return Array.from({ length: count + 1 }, (_, index) => Number((index * step).toPrecision(6)));
}

function renderRatios(
  clients: readonly number[],
  series: readonly Series[],
  ticks: readonly number[],
): string[] {
  const y = scale([0, ticks.at(-1) ?? 1], [lines.bottom, lines.top]);
  const x = scale([0, clients.length - 1], [lines.left + 24, lines.right - 24]);
  // Ranges of several ways at one place would hide each other.
  const shift = (index: number) => (index - (series.length - 1) / 2) * 7;
  return [
    text([lines.left, 24], 'p50 of a new connection', 'title'),
    text([lines.left, 44], 'divided by straight access; median, least and most of all rounds', 'note'),
    ...ticks.map((tick) => grid(y(tick), lines, tick === 1 ? 'even' : 'grid')),
    ...ticks.map((tick) => text([lines.left - 8, y(tick) + 4], String(tick), 'note', 'end')),
    ...clients.map((count, index) =>
      text([x(index), lines.bottom + 20], count.toLocaleString('en-US'), 'note', 'middle'),
    ),
    text([(lines.left + lines.right) / 2, lines.bottom + 40], 'clients at the same time', 'note', 'middle'),
    axis(lines),
    ...series.flatMap(({ color, ratios }, index) =>
      renderLine(color, ratios, (at) => x(at) + shift(index), y),
    ),
  ];
}

/** Under both plots, as wide as the names take. */
function renderLegend(series: readonly Series[]): string[] {
  let x = lines.left;
  return series.flatMap(({ title, color }) => {
    const at = x;
    // Of a letter at 12 pixels, on average.
    x += 40 + title.length * 6.5;
    return [
      `<rect class="${color}" x="${round(at)}" y="${size.height - 23}" width="14" height="10"/>`,
      text([at + 20, size.height - 14], title, 'note'),
    ];
  });
}

function renderLine(
  color: string,
  ratios: readonly (Spread | null)[],
  x: (index: number) => number,
  y: (ratio: number) => number,
): string[] {
  const points = ratios.flatMap((ratio, index) => (ratio === null ? [] : [{ ...ratio, x: round(x(index)) }]));
  const corners = points.map((point) => `${point.x},${round(y(point.median))}`);
  return [
    `<polyline class="line ${color}" points="${corners.join(' ')}"/>`,
    ...points.map(
      (point) =>
        `<line class="range ${color}" x1="${point.x}" x2="${point.x}" y1="${round(y(point.min))}" y2="${round(y(point.max))}"/>`,
    ),
    ...points.map(
      (point) => `<circle class="${color}" cx="${point.x}" cy="${round(y(point.median))}" r="3"/>`,
    ),
  ];
}

function renderCosts(series: readonly Series[], ticks: readonly number[]): string[] {
  const x = scale([0, ticks.at(-1) ?? 1], [bars.left, bars.right]);
  const height = (bars.bottom - bars.top) / Math.max(1, series.length);
  return [
    text([barTitles, 24], 'Processor time of a new connection', 'title'),
    text([barTitles, 44], 'µs beyond straight access', 'note'),
    ...ticks.map(
      (tick) =>
        `<line class="grid" x1="${round(x(tick))}" x2="${round(x(tick))}" y1="${bars.top}" y2="${bars.bottom}"/>`,
    ),
    ...ticks.map((tick) => text([x(tick), bars.bottom + 20], String(tick), 'note', 'middle')),
    text([(bars.left + bars.right) / 2, bars.bottom + 40], 'µs', 'note', 'middle'),
    ...series.flatMap((one, index) => renderBar(one, bars.top + index * height, height, x)),
    axis(bars),
  ];
}

function renderBar(
  { title, color, processor }: Series,
  top: number,
  height: number,
  x: (us: number) => number,
) {
  const middle = round(top + height / 2);
  const [first = '', second = ''] = title.split(', ');
  const name = [
    text([barTitles, middle + (second === '' ? 4 : -3)], first),
    ...(second === '' ? [] : [text([barTitles, middle + 13], second, 'note')]),
  ];
  if (processor === null) return name;
  const width = round(Math.max(0, x(processor.median) - bars.left));
  return [
    ...name,
    `<rect class="${color}" x="${bars.left}" y="${round(top + height * 0.2)}" width="${width}" height="${round(height * 0.6)}" opacity=".75"/>`,
    `<line class="range ${color}" x1="${round(x(processor.min))}" x2="${round(x(processor.max))}" y1="${middle}" y2="${middle}"/>`,
  ];
}

function scale([from, to]: readonly [number, number], [start, end]: readonly [number, number]) {
  return (value: number) => start + ((value - from) / (to - from || 1)) * (end - start);
}

function axis({ left, right, top, bottom }: typeof lines): string {
  return `<path class="axis" d="M${left} ${top}V${bottom}H${right}"/>`;
}

function grid(y: number, { left, right }: typeof lines, name: string): string {
  return `<line class="${name}" x1="${left}" x2="${right}" y1="${round(y)}" y2="${round(y)}"/>`;
}

function text([x, y]: readonly [number, number], words: string, name = '', anchor = 'start'): string {
  const escaped = words.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<text x="${round(x)}" y="${round(y)}" class="${name}" text-anchor="${anchor}">${escaped}</text>`;
}

function round(value: number): number {
  return Number(value.toFixed(1));
}
