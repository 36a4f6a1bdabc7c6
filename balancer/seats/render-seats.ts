import { seatsMark } from '../../lib/keepalived/find.ts';
import { renderConfiguration } from '../../lib/keepalived/render.ts';
import { toPriority } from '../../lib/keepalived/priority.ts';
import { toRouterId } from '../../lib/keepalived/words.ts';
import { type PlacedAddress } from './place-address.ts';
import { type PlannedSeat } from './plan-seats.ts';
import { type SeatFiles } from '../../lib/keepalived/seat-files.ts';
import { wholePrefixes } from '../../lib/keepalived/subnets.ts';

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

/** Of one family. Adverts name the anchor alone: nodes that differ in a Service's address agree on the holder all the same. */
function toInstance({ name, anchor, device, vrid, place, advertMs, isUsed, addresses }: PlannedSeat) {
  const others = new Set(addresses.map((one) => one.device));
  return {
    name: nameSeatInstance(name),
    device,
    vrid,
    priority: toPriority(place),
    advertMs,
    // A seat that nobody uses goes to its first node: so new clusters spread their seats. Later nothing moves by itself.
    preempts: !isUsed,
    unicast: null,
    addresses: [`${render({ address: anchor, device: 'lo' }, device)} ${anchorWords[anchor.family]}`],
    excluded: addresses.map((one) => render(one, device)),
    tracked: [...others].filter((one) => one !== device && one !== 'lo').sort(),
  };
}

/** On `lo` keepalived announces it to nobody. For IPv6, keepalived 2.2.7 refuses a scope. */
const anchorWords = { ipv4: 'scope host no_track', ipv6: 'no_track' } as const;

function render({ address: { family, text }, device }: PlacedAddress, usual: string): string {
  return `${text}/${wholePrefixes[family]}${device === usual ? '' : ` dev ${device}`}`;
}
