/** One panel of a graph: lines over the same time. */
export interface Panel {
  readonly title: string;
  readonly lines: readonly Line[];
}

/** One line, by time. */
export interface Line {
  readonly name: string;
  readonly points: readonly (readonly [minutes: number, value: number])[];
}

const width = 860;
const left = 56;
const right = 76;
const plotHeight = 120;
const panelHeight = plotHeight + 48;
const top = 8;
const bottom = 40;

/** More points than pixels are no use. */
const maxPoints = 240;

/** Colours that are told apart on white and on black, also by who sees no red or no green (after Okabe and Ito). */
const colours = ['#2a8bd0', '#e69f00', '#009e73'];

/** Readable on white and on black: who shows the picture need not know the reader's preference. */
const style = `
  text { font: 12px system-ui, sans-serif; fill: #737b85 }
  .title { font-weight: 600 }
  .grid { stroke: #737b85; stroke-opacity: 0.3 }
  .mark { fill: #737b85; fill-opacity: 0.12 }
  polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round }`;

/**
 * An SVG of panels one below the other, with minutes from left to right; what lies outside the marked time is shaded.
 * Values begin at 0, so that what looks flat is flat. Pure.
 */
export function renderGraph(panels: readonly Panel[], marked: readonly [from: number, to: number]): string {
  const minutes = Math.max(...panels.flatMap(({ lines }) => lines.flatMap(listMinutes)), 1);
  const height = top + panels.length * panelHeight + bottom;
  const toX = (at: number) => left + (at / minutes) * (width - left - right);
  const body = panels.map((panel, index) =>
    renderPanel(panel, top + index * panelHeight, { toX, marked, minutes }),
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">`,
    `<style>${style}\n</style>`,
    ...body,
    ...renderMinutes(minutes, toX, height - bottom),
    '</svg>',
    '',
  ].join('\n');
}

interface Frame {
  readonly toX: (minutes: number) => number;
  readonly marked: readonly [from: number, to: number];
  readonly minutes: number;
}

function renderPanel({ title, lines }: Panel, y: number, { toX, marked, minutes }: Frame): string {
  const greatest = Math.max(...lines.flatMap(({ points }) => points.map(([, value]) => value)), 1);
  const step = chooseStep(greatest, 4);
  const limit = Math.ceil(greatest / step) * step;
  const base = y + 24 + plotHeight;
  const toY = (value: number) => base - (value / limit) * plotHeight;
  const shade = (from: number, to: number) =>
    `<rect class="mark" x="${round(toX(from))}" y="${y + 24}" width="${round(toX(to) - toX(from))}" height="${plotHeight}"/>`;
  const ticks = Array.from({ length: Math.round(limit / step) + 1 }, (_, index) => index * step);
  return [
    `<text class="title" x="${left}" y="${y + 16}">${title}</text>`,
    shade(0, marked[0]),
    shade(marked[1], minutes),
    ...ticks.map((tick) => renderTick(tick, round(toY(tick)))),
    ...lines.map((line, index) => renderLine(line, colours[index % colours.length] ?? '', toX, toY)),
    ...lines.map((line, index) => renderName(line.name, index, y)),
  ].join('\n');
}

function renderTick(value: number, y: number): string {
  return `<line class="grid" x1="${left}" x2="${width - right}" y1="${y}" y2="${y}"/>
<text x="${left - 8}" y="${y + 4}" text-anchor="end">${value}</text>`;
}

function renderLine(
  { points }: Line,
  colour: string,
  toX: (minutes: number) => number,
  toY: (value: number) => number,
): string {
  const text = thin(points).map(([at, value]) => `${round(toX(at))},${round(toY(value))}`);
  return `<polyline stroke="${colour}" points="${text.join(' ')}"/>`;
}

function renderName(name: string, index: number, y: number): string {
  const [x, middle] = [width - right + 10, y + 36 + index * 18];
  const colour = colours[index % colours.length] ?? '';
  return `<line x1="${x}" x2="${x + 16}" y1="${middle}" y2="${middle}" stroke="${colour}" stroke-width="3"/>
<text x="${x + 22}" y="${middle + 4}">${name}</text>`;
}

function renderMinutes(minutes: number, toX: (minutes: number) => number, y: number): string[] {
  const step = chooseStep(minutes, 8);
  const ticks = Array.from({ length: Math.floor(minutes / step) + 1 }, (_, index) => index * step);
  return [
    ...ticks.map((tick) => `<text x="${round(toX(tick))}" y="${y + 4}" text-anchor="middle">${tick}</text>`),
    `<text x="${round(toX(minutes / 2))}" y="${y + 24}" text-anchor="middle">minutes</text>`,
  ];
}

/** The median of equally many neighbours, so that one odd sample does not become a line's shape. */
function thin(points: Line['points']): Line['points'] {
  const size = Math.ceil(points.length / maxPoints);
  if (size <= 1) return points;
  return Array.from({ length: Math.ceil(points.length / size) }, (_, index) => {
    const some = points.slice(index * size, (index + 1) * size);
    const middle = Math.floor(some.length / 2);
    const value = some.map((point) => point[1]).toSorted((a, b) => a - b)[middle] ?? 0;
    return [some[middle]?.[0] ?? 0, value] as const;
  });
}

function listMinutes({ points }: Line): number[] {
  return points.map(([minutes]) => minutes);
}

/** 1, 2 or 5 times a power of ten, and at least 1, so that about so many lines are drawn. */
function chooseStep(limit: number, count: number): number {
  const rough = Math.max(1, limit / count);
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
