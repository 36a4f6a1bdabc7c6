import { formatAge } from '../../../lib/text/age.ts';
import { layOutParts, type Part } from '../text/lay-out.ts';
import { type Screen } from '../text/screen.ts';
import { nameTable } from '../../../lib/services/balancer-table.ts';
import { findTrouble, type HostBalancer, isUsed } from '../../../lib/services/host-balancer.ts';

/** What `status` says of Services on this host: whether they are balanced, which seats it has, and who keeps it so. No line without Services. */
export function formatHostServices(host: HostBalancer, screen: Screen): string[] {
  if (!isUsed(host)) return [];
  const lines: [string, readonly Part[]][] = [
    ['Services', describeServices(host)],
    ...(host.activity === null ? [] : [['seats', describeSeats(host.activity)] as [string, Part[]]]),
    ['balancer', describeBalancer(host)],
  ];
  return lines.flatMap(([label, parts]) => layOutParts(label.padEnd('kube-proxy  '.length), parts, screen));
}

function describeServices(host: HostBalancer): Part[] {
  const trouble = findTrouble(host);
  const { activity, tables } = host;
  const counts = activity === null ? [] : describeCounts(activity);
  if (trouble === null) return [{ text: activity?.mode ?? '' }, ...counts];
  const alive = tables.flatMap(({ aliveSeconds }) => (aliveSeconds === null ? [] : [aliveSeconds]));
  const isLeft = tables.length > 0 && alive.length === tables.length;
  const rest = isLeft
    ? `tables count for ${Math.ceil(Math.min(...alive))} s`
    : "kube-proxy's rules, if any, serve them";
  return [
    { text: isLeft ? 'NOT KEPT' : 'NOT BALANCED', tone: 'bad' },
    { text: trouble },
    { text: rest },
    ...counts,
  ];
}

type Activity = NonNullable<HostBalancer['activity']>;

function describeCounts({ services, elements, isFollowing, inUse }: Activity): Part[] {
  const plural = (count: number, word: string) => `${count} ${word}${count === 1 ? '' : 's'}`;
  return [
    { text: `${plural(services, 'Service')}, ${plural(elements, 'element')}` },
    isFollowing ? { text: 'follows the API' } : { text: 'THE API IS AWAY: tables stay', tone: 'doubtful' },
    ...(inUse.length === 0
      ? []
      : [{ text: `another host has ${inUse.join(', ')}`, tone: 'bad' } satisfies Part]),
  ];
}

function describeSeats({ seats, held }: Activity): Part[] {
  const others = seats.filter((seat) => !held.includes(seat));
  if (seats.length === 0 && held.length === 0) return [{ text: 'none may be held by this node' }];
  return [
    { text: held.length === 0 ? 'none held' : `holds ${held.join(', ')}` },
    ...(others.length === 0 ? [] : [{ text: `may hold ${others.join(', ')}` }]),
  ];
}

function describeBalancer({ balancer, activity, tables }: HostBalancer): Part[] {
  if (balancer === null) {
    const what = tables.length === 0 ? 'no table of vipnat is here' : `no program renews ${nameAll(tables)}`;
    return [{ text: `NOT RUNNING: ${what}`, tone: 'bad' }];
  }
  const { syncedMsAgo = null, repairs = 0 } = activity ?? {};
  return [
    { text: `running, pid ${balancer.pid}, since ${balancer.since}` },
    ...(syncedMsAgo === null ? [] : [{ text: `last sync ${formatAge(syncedMsAgo)} ago` }]),
    ...(repairs === 0 ? [] : [{ text: `${repairs} repair${repairs === 1 ? '' : 's'}` }]),
  ];
}

function nameAll(tables: HostBalancer['tables']): string {
  return tables.map(({ family }) => nameTable(family)).join(', ');
}
