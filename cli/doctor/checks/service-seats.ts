import {
  type InstanceView,
  type KeepalivedConfiguration,
  viewInstances,
} from '../../../lib/keepalived/find.ts';
import { type VrrpAdvert } from '../../../lib/keepalived/advert.ts';
import { toPrintableLine } from '../../../lib/text/printable.ts';
import { type Check } from '../facts/check.ts';
import { type Finding, given, lookAt, lookAtHost, type NotHere } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** Whether keepalived can hold the seats of this node. Each is to be asked only where Services are used. */
export const seatChecks: readonly Check[] = [
  {
    code: 'seats-keepalived-not-running',
    levels: ['fail'],
    meaning:
      'This node may hold addresses of Services, and the keepalived that would hold them does not run.',
    find: findNoKeepalived,
  },
  {
    code: 'seats-configuration-refused',
    levels: ['fail'],
    meaning: 'keepalived refused the configuration of the balancer, and keeps the one before it.',
    find: findRefused,
  },
  {
    code: 'seat-vrid-clash',
    levels: ['fail'],
    meaning:
      'Another host, or another keepalived of this host, uses the `virtual_router_id` of a seat for other addresses.',
    find: findVridClash,
  },
];

const noSeats: NotHere = { notHere: 'this node may hold no address of a Service' };

function readSeats({ services: { keepalived } }: HostFacts): readonly InstanceView[] {
  return 'value' in keepalived ? viewInstances(keepalived.value.text ?? '') : [];
}

function findNoKeepalived(facts: HostFacts): ReturnType<Check['find']> {
  return given([facts.services.keepalived, facts.seatProcesses], ({ path }, running) => {
    const seats = readSeats(facts);
    if (seats.length === 0) return noSeats;
    return lookAtHost(() => {
      if (running.length > 0) return [];
      return [
        {
          level: 'fail',
          title: `no keepalived runs with ${path}`,
          why: `This node holds none of the ${seats.length} seats that it may hold. If no other node does, their Services have no address.`,
          remedy: [
            '# see why its container does not run: kubectl -n vipnat-system describe pod -l app.kubernetes.io/name=vipnat-balancer',
            '# without a pod: docs/seats.md says how to start it. If a pod runs it, do not start it by hand',
          ],
        },
      ];
    });
  });
}

function findRefused(facts: HostFacts): ReturnType<Check['find']> {
  return given([facts.services.keepalived], ({ path, refusal }) => {
    if (readSeats(facts).length === 0 && refusal === '') return noSeats;
    return lookAtHost(() => {
      if (refusal === '') return [];
      const [line = ''] = refusal.split('\n');
      return [
        {
          level: 'fail',
          title: `keepalived refused ${path}: ${toPrintableLine(line)}`,
          why: 'keepalived keeps its former configuration: addresses that came since are not held here, and addresses that went still are.',
          remedy: [`keepalived --config-test --use-file=${path}`],
        },
      ];
    });
  });
}

/** An id belongs to one set of addresses on a link (RFC 9568, section 5.2.3). Adverts of a seat name its anchor alone. */
function findVridClash(facts: HostFacts): ReturnType<Check['find']> {
  const { adverts, keepalived, services } = facts;
  const other = 'value' in keepalived ? keepalived.value : { path: '', text: null };
  return given([services.keepalived, adverts], (_, seen) =>
    lookAt(readSeats(facts), noSeats, (seat) => {
      const who = describeHere(seat, other) ?? describeAdvert(seat, seen);
      return who === null ? [] : [describeClash(seat, who)];
    }),
  );
}

function describeHere(
  seat: InstanceView,
  { path, text }: Pick<KeepalivedConfiguration, 'path' | 'text'>,
): string | null {
  const clash = viewInstances(text ?? '').find((one) => isClash(one, seat));
  return clash === undefined ? null : `the vrrp_instance ${clash.name} of ${path} has it, too`;
}

function describeAdvert(seat: InstanceView, adverts: readonly VrrpAdvert[]): string | null {
  const clash = adverts.find((one) => isForeign(one, seat));
  return clash === undefined ? null : `${clash.source} uses it for ${clash.addresses.join(', ')}`;
}

function isClash(one: InstanceView, seat: InstanceView): boolean {
  const isSameLink = one.device === seat.device || one.device === '';
  const isSameFamily = familyOf(one) === familyOf(seat);
  return one.vrid === seat.vrid && isSameLink && isSameFamily;
}

/** Its adverts go by the family of its first address. */
function familyOf({ addresses: [first = ''] }: InstanceView): 'ipv4' | 'ipv6' {
  return first.includes(':') ? 'ipv6' : 'ipv4';
}

function isForeign({ vrid, family, addresses }: VrrpAdvert, seat: InstanceView): boolean {
  return (
    vrid === seat.vrid &&
    family === familyOf(seat) &&
    !addresses.some((address) => seat.addresses.includes(address))
  );
}

/** Whoever pastes a change of a pool, or of another host's keepalived, moves addresses: both are for a person. */
function describeClash({ name, vrid }: InstanceView, who: string): Finding {
  const pool = /^seat-([^/]*)/.exec(name)?.[1] ?? '';
  return {
    level: 'fail',
    title: `virtual_router_id ${vrid} of ${name} is used twice: ${toPrintableLine(who)}`,
    why: 'Each group treats the other’s adverts as its own. No node may hold the addresses of one group, or both may keep moving.',
    remedy: [
      '# change the virtual_router_id of the other keepalived on all its hosts,',
      `# or give spec.vrids of the pool ${pool} a free range. Then its Services do not answer for about a second`,
    ],
  };
}
