import { formatDrained } from '../../../lib/services/drained.ts';
import { formatAge } from '../../../lib/text/age.ts';
import { listMisplaced, type SeatsView, type SeatView } from '../../seats/view-seats.ts';
import { clean, layOutText, paint, type Tone } from '../text/lay-out.ts';
import { plainScreen, type Screen } from '../text/screen.ts';
import { keepTogether } from '../text/wrap.ts';

const titles = ['SEAT', 'HOLDER', 'ADDRESSES'] as const;
const rightColumn = 2;

/** A node that says nothing for so long is no candidate any more. */
const silentMs = 40_000;

/** What `vipnat seats` prints: each seat with who holds it and who may, then what a person may want to know. */
export function formatSeats(view: SeatsView, screen: Screen = plainScreen): string {
  const lines =
    view.seats.length === 0 ? ['no seat: no AddressPool has one'] : formatTable(view.seats, screen);
  const notes = listNotes(view).flatMap((note) => layOutText('', note, screen));
  return [...lines, ...(notes.length === 0 ? [] : ['', ...notes])].map((line) => `${line}\n`).join('');
}

function formatTable(seats: readonly SeatView[], screen: Screen): string[] {
  const rows = seats.map((seat) =>
    [seat.seat, nameHolder(seat), String(seat.addresses)].map((cell) => clean(cell, screen)),
  );
  const widths = titles.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const pad = (cells: readonly string[], tone?: Tone) =>
    cells
      .map((cell, column) => {
        const gap = ' '.repeat((widths[column] ?? 0) - cell.length);
        if (column === rightColumn) return `${gap}${cell}`;
        return `${column === 1 ? paint(cell, tone, screen) : cell}${gap}`;
      })
      .join('  ');
  const left = widths.reduce((sum, width) => sum + width + 2, 0);
  return [
    `${pad(titles)}  MAY HOLD IT`,
    ...rows.flatMap((row, index) => {
      const { nodes = [], holders = [] } = seats[index] ?? {};
      const [first = '', ...more] = layOutText(' '.repeat(left), nodes.join(', ') || 'no node', screen);
      const head = `${pad(row, holders.length === 1 ? 'good' : 'bad')}  `;
      return [`${head}${first.slice(left)}`, ...more];
    }),
  ];
}

function nameHolder({ holders }: SeatView): string {
  return holders.length === 0 ? 'nobody' : holders.join(' and ');
}

function listNotes(view: SeatsView): string[] {
  const misplaced = listMisplaced(view);
  return [
    ...view.nodes.filter((one) => (one.silentMs ?? Infinity) > silentMs).map(describeSilence),
    ...view.nodes
      .filter(({ mode, silentMs: ms }) => mode === 'none' && (ms ?? Infinity) <= silentMs)
      .map(({ node }) => `${node} can serve no Service: it holds no seat`),
    ...view.nodes.flatMap(({ node, inUse }) =>
      inUse.map((address) => `another host on the network of ${node} answers for ${address}`),
    ),
    ...[...view.drained].flatMap(([pool, drained]) => {
      const text = formatDrained(drained);
      return text === null ? [] : [`drained in pool ${pool}: ${text}`];
    }),
    ...(misplaced.length === 0
      ? []
      : [
          `${misplaced.map(({ seat }) => seat).join(', ')}: another node comes first. To move them: ${keepTogether('vipnat seats rebalance')}`,
        ]),
  ];
}

function describeSilence({ node, silentMs: ms }: SeatsView['nodes'][number]): string {
  return ms === null ? `${node} has said nothing yet` : `${node} has said nothing for ${formatAge(ms)}`;
}
