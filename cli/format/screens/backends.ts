import { formatEndpoint } from '../../../lib/address/endpoint.ts';
import { formatAge } from '../../../lib/text/age.ts';
import { type Screen } from '../text/screen.ts';
import { clean, layOutText, paint, type Tone } from '../text/lay-out.ts';
import type { ApiserverState, BackendStatus } from '../../../agent/main.ts';

const titles = ['APISERVER', 'STATE', 'SINCE', 'FLOWS'] as const;

/** Numbers stand to the right. */
const firstRightColumn = 3;
const stateColumn = 1;

/** Prose in a narrower column would be a ladder: it stands below its row then. */
const leastReasonWidth = 24;

const margin = '  ';

const stateToTone: Readonly<Partial<Record<ApiserverState, Tone>>> = {
  ready: 'good',
  draining: 'doubtful',
  dead: 'bad',
};

/** The table of the apiservers of a VIP. It has a column for shares of new connections only where they differ. */
export function formatBackends(backends: readonly BackendStatus[], screen: Screen): string[] {
  const hasShares = areSharesDifferent(backends);
  const rows = backends.map(({ endpoint, isLocal, state, forMs, flows, share }) => [
    `${formatEndpoint(endpoint)}${isLocal ? ' *' : ''}`,
    state,
    forMs === null ? '' : formatAge(forMs),
    flows === null ? '' : String(flows),
    ...(hasShares ? [share === null ? '' : `${Math.round(share * 100)} %`] : []),
  ]);
  const heads = [...titles, ...(hasShares ? ['SHARE'] : [])];
  const all = [heads, ...rows];
  const widths = all[0]?.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0))) ?? [];
  const format = (row: readonly string[], tone?: Tone) => {
    const cells = row.map((cell, column) => {
      const width = widths[column] ?? 0;
      if (column >= firstRightColumn) return cell.padStart(width);
      const word = column === stateColumn ? paint(cell, tone, screen) : cell;
      return `${word}${' '.repeat(Math.max(0, width - cell.length))}`;
    });
    return `${margin}${cells.join('  ')}  `;
  };
  const left = margin.length + widths.reduce((sum, width) => sum + width + 2, 0);
  return [
    format([...heads, 'WHY']).trimEnd(),
    ...rows.flatMap((row, index) => {
      const backend = backends[index];
      const line = format(row, backend === undefined ? undefined : stateToTone[backend.state]);
      return addReason({ line, left, reason: backend?.reason ?? '' }, screen);
    }),
  ];
}

function areSharesDifferent(backends: readonly BackendStatus[]): boolean {
  // Those that are not in use get nothing, which their state says.
  const shares = backends.map(({ share }) => share).filter((share) => share !== null && share > 0);
  return new Set(shares).size > 1;
}

/** Behind its row where there is room, else below it. */
function addReason(
  { line, left, reason }: { line: string; left: number; reason: string },
  screen: Screen,
): string[] {
  if (reason === '') return [line.trimEnd()];
  const room = (screen.width ?? Infinity) - left;
  if (room < leastReasonWidth && clean(reason, screen).length > room) {
    return [line.trimEnd(), ...layOutText(`${margin}${margin}`, reason, screen)];
  }
  const [first = '', ...more] = layOutText(' '.repeat(left), reason, screen);
  return [`${line}${first.slice(left)}`, ...more];
}
