import { type Caption, renderSvg, renderText, round } from './svg.ts';

/** A place, or one on a box: `m1.left`, and so far along its side from the middle: `m1.left+20`. */
type Place = readonly [x: number, y: number] | string;

/** A box with a title and lines under it. A host has its title in its corner, and other boxes in it. */
interface Box {
  readonly name: string;
  readonly kind: 'host' | 'process' | 'kernel' | 'object';
  readonly at: readonly [x: number, y: number];
  readonly size: readonly [width: number, height: number];
  readonly title: string;
  readonly lines?: readonly string[];
}

/** A line through places with a head at its end: of packets, of replies, or of what keeps the packets' way right. */
interface Arrow {
  readonly kind: 'packet' | 'reply' | 'control';
  readonly through: readonly Place[];
  /** Whether it has a head at its beginning as well. */
  readonly isDouble?: boolean;
  readonly label?: string;
  /** Where the label stands, and which part of it stands there. */
  readonly labelAt?: readonly [x: number, y: number, anchor?: 'start' | 'middle' | 'end'];
}

/** Words of their own. */
interface Note {
  readonly at: readonly [x: number, y: number];
  readonly words: string;
  readonly kind?: 'title' | 'small' | 'strong';
  readonly anchor?: 'start' | 'middle' | 'end';
}

/** A picture of boxes and arrows; hosts come before what is in them. */
export interface Diagram extends Caption {
  readonly height: number;
  readonly boxes: readonly Box[];
  readonly arrows: readonly Arrow[];
  readonly notes?: readonly Note[];
  /** Where the legend's line is; none when left out. */
  readonly legendAt?: number;
}

const [lineHeight, headLength] = [18, 10];

/** An SVG of it. Pure. */
export function renderDiagram(diagram: Diagram): string {
  const { height, boxes, arrows, notes = [], legendAt } = diagram;
  const body = [
    ...boxes.flatMap(renderBox),
    ...arrows.flatMap((arrow) => renderArrow(arrow, boxes)),
    ...notes.map(({ at, words, kind, anchor }) => renderText(at, words, kind ?? 'label', anchor)),
    ...(legendAt === undefined ? [] : renderLegend(legendAt, arrows)),
  ];
  return renderSvg(diagram, height, body);
}

function renderBox({ kind, at: [x, y], size: [width, height], title, lines = [] }: Box): string[] {
  const rect = `<rect class="${kind}" x="${x}" y="${y}" width="${width}" height="${height}" rx="6"/>`;
  if (kind === 'host')
    return [
      rect,
      renderText([x + 12, y + 22], title, 'title'),
      ...lines.map((line, index) => renderText([x + 12, y + 22 + (index + 1) * lineHeight], line, 'small')),
    ];
  const top = y + height / 2 - ((lines.length - (title === '' ? 1 : 0)) * lineHeight) / 2 + 5;
  const texts = [
    ...(title === '' ? [] : [[title, 'title'] as const]),
    ...lines.map((line) => [line, 'label'] as const),
  ];
  return [
    rect,
    ...texts.map(([words, name], index) =>
      renderText([x + width / 2, top + index * lineHeight], words, name, 'middle'),
    ),
  ];
}

function renderArrow(
  { kind, through, isDouble = false, label, labelAt }: Arrow,
  boxes: readonly Box[],
): string[] {
  const points = through.map((place) => locate(place, boxes));
  const heads = [renderHead(kind, points), ...(isDouble ? [renderHead(kind, points.toReversed())] : [])];
  const corners = [...points];
  corners[corners.length - 1] = shorten(points);
  if (isDouble) corners[0] = shorten(points.toReversed());
  const line = `<path class="${kind}" d="M${corners.map(([x, y]) => `${round(x)} ${round(y)}`).join('L')}"/>`;
  const words =
    label === undefined || labelAt === undefined
      ? []
      : [renderText([labelAt[0], labelAt[1]], label, 'label', labelAt[2])];
  return [line, ...heads, ...words];
}

type Point = readonly [x: number, y: number];

function locate(place: Place, boxes: readonly Box[]): Point {
  if (typeof place !== 'string') return place;
  const [, name = '', side = '', along = '0'] =
    /^(\w+)\.(left|right|top|bottom)([+-]\d+)?$/.exec(place) ?? [];
  const box = boxes.find((one) => one.name === name);
  if (box === undefined) throw new Error(`no such place in the picture: ${place}`);
  const [[x, y], [width, height], shift] = [box.at, box.size, Number(along)];
  const [middleX, middleY] = [x + width / 2 + shift, y + height / 2 + shift];
  const sides: Readonly<Record<string, Point>> = {
    ...{ left: [x, middleY], right: [x + width, middleY] },
    ...{ top: [middleX, y], bottom: [middleX, y + height] },
  };
  return sides[side] ?? box.at;
}

/** A triangle whose tip is the last point. */
function renderHead(kind: Arrow['kind'], points: readonly Point[]): string {
  const [tip, [dx, dy]] = [points.at(-1) ?? [0, 0], direct(points)];
  const base: Point = [tip[0] - dx * headLength, tip[1] - dy * headLength];
  const corners = [tip, [base[0] - dy * 5, base[1] + dx * 5], [base[0] + dy * 5, base[1] - dx * 5]] as const;
  return `<polygon class="head-${kind}" points="${corners.map(([x, y]) => `${round(x)},${round(y)}`).join(' ')}"/>`;
}

/** The last point, moved back behind the head. */
function shorten(points: readonly Point[]): Point {
  const [[x, y], [dx, dy]] = [points.at(-1) ?? [0, 0], direct(points)];
  return [x - dx * (headLength - 2), y - dy * (headLength - 2)];
}

/** The direction of the last stretch. */
function direct(points: readonly Point[]): Point {
  const [[fromX, fromY], [toX, toY]] = [points.at(-2) ?? [0, 0], points.at(-1) ?? [0, 0]];
  const length = Math.hypot(toX - fromX, toY - fromY) || 1;
  return [(toX - fromX) / length, (toY - fromY) / length];
}

const legend = { packet: 'packets', reply: 'replies', control: 'settings, probes, reports' };

function renderLegend(y: number, arrows: readonly Arrow[]): string[] {
  const kinds = (['packet', 'reply', 'control'] as const).filter((kind) =>
    arrows.some((arrow) => arrow.kind === kind),
  );
  return kinds.flatMap((kind, index) => {
    const x = 24 + index * 150;
    return [
      ...renderArrow(
        {
          kind,
          through: [
            [x, y - 4],
            [x + 36, y - 4],
          ],
        },
        [],
      ),
      renderText([x + 44, y], legend[kind], 'small'),
    ];
  });
}
