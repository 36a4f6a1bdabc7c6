import { formatDrained } from '../../../lib/services/drained.ts';
import { formatAge } from '../../../lib/text/age.ts';
import { listMisplaced, type NodeView, type SeatsView, type SeatView } from '../../seats/view-seats.ts';
import { layOutText, type Part } from '../text/lay-out.ts';
import { plainScreen, type Screen } from '../text/screen.ts';
import { formatTable } from '../text/table.ts';
import { keepTogether } from '../text/wrap.ts';

const columns = [
  { title: 'SEAT' },
  { title: 'HOLDER' },
  { title: 'ADDRESSES', isRight: true },
  { title: 'MAY HOLD IT' },
] as const;

/** What `vipnat seats` prints: each seat with who holds it and who may, then what a person may want to know. */
export function formatSeats(view: SeatsView, screen: Screen = plainScreen): string {
  const lines =
    view.seats.length === 0
      ? ['no seat: no AddressPool has one']
      : formatTable(columns, view.seats.map(toRow), screen);
  const notes = listNotes(view).flatMap((note) => layOutText('', note, screen));
  return [...lines, ...(notes.length === 0 ? [] : ['', ...notes])].map((line) => `${line}\n`).join('');
}

function toRow(seat: SeatView): Part[] {
  return [
    { text: seat.seat },
    { text: nameHolder(seat), tone: seat.holders.length === 1 ? 'good' : 'bad' },
    { text: String(seat.addresses) },
    { text: seat.nodes.join(', ') || 'no node' },
  ];
}

function nameHolder({ holders }: SeatView): string {
  return holders.length === 0 ? 'nobody' : holders.join(' and ');
}

function listNotes(view: SeatsView): string[] {
  const misplaced = listMisplaced(view);
  return [
    ...view.nodes.filter((one) => !one.isLiving).map(describeSilence),
    ...view.nodes
      .filter(({ mode, isLiving }) => mode === 'none' && isLiving)
      .map(({ node }) => `${node} can serve no Service: it holds no seat`),
    ...view.nodes.flatMap(({ node, inUse }) =>
      inUse.map((address) => `another host on the network of ${node} answers for ${address}`),
    ),
    ...view.nodes
      .filter(({ isLiving }) => isLiving)
      .flatMap(({ node, unheld }) =>
        Object.entries(unheld).map(([name, why]) => `${node} cannot hold ${name}: ${why}`),
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

/** A node whose Lease has run out. */
export function describeSilence({ node, silentMs: ms }: Pick<NodeView, 'node' | 'silentMs'>): string {
  return ms === null ? `${node} has said nothing yet` : `${node} has said nothing for ${formatAge(ms)}`;
}
