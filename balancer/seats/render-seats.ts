import { seatsMark } from '../../lib/keepalived/find.ts';
import { renderConfiguration } from '../../lib/keepalived/render.ts';
import { toPriority } from '../../lib/keepalived/priority.ts';
import { toRouterId } from '../../lib/keepalived/words.ts';
import { type PlacedAddress, wholePrefixes } from './place-address.ts';
import { type PlannedSeat } from './plan-seats.ts';
import { type SeatFiles } from './seat-files.ts';

/** The text of keepalived.conf. Pure: equal input, equal bytes. */
export function renderSeats(
  node: string,
  seats: readonly PlannedSeat[],
  { trackFile, notices, checkLog }: SeatFiles,
): string {
  return renderConfiguration({
    mark: seatsMark,
    routerId: toRouterId(node),
    // IPv6 and adverts of less than a second have no other.
    version: 3,
    globals: [
      // No vrrp_garp_interval: with any, keepalived 2.2.7 announces 350 addresses a second, and clients of 1,000 wait for 3 s.
      // Where the balancer cannot check the file, keepalived does: a file that it refuses changes nothing.
      `reload_check_config ${checkLog}`,
    ],
    notices,
    trackFile: {
      path: trackFile,
      comment: 'vipnat balancer writes this file. 0: this node can serve. Without a balancer it stays 0.',
    },
    instances: seats.map(toInstance),
    group: null,
  });
}

/** What a seat's vrrp_instance is called. */
export function nameSeatInstance(seat: string): string {
  return `seat-${seat}`;
}

/** One instance for both families: they cannot have two holders, and a family that comes moves nothing. */
function toInstance({ name, anchors, vrid, place, advertMs, isUsed, addresses }: PlannedSeat) {
  const [first, ...others] = anchors;
  const device = first?.device ?? '';
  const excluded = [...others, ...addresses];
  return {
    name: nameSeatInstance(name),
    device,
    vrid,
    priority: toPriority(place),
    advertMs,
    // A seat that nobody uses goes to its first node: so new clusters spread their seats. Later nothing moves by itself.
    preempts: !isUsed,
    unicast: null,
    addresses: first === undefined ? [] : [render(first, device)],
    excluded: excluded.map((one) => render(one, device)),
    tracked: [...new Set(excluded.map((one) => one.device))].filter((one) => one !== device).sort(),
  };
}

function render({ address: { family, text }, device }: PlacedAddress, usual: string): string {
  return `${text}/${wholePrefixes[family]}${device === usual ? '' : ` dev ${device}`}`;
}
