import { type AddressRange, parseRange, parseAddress, type Address, contains } from '../../lib/net.ts';
import { type PortRange, methods } from './settings.ts';
import {
  DeviceError,
  type DeviceMethod,
  type Balancer,
  type DeviceSettings,
  isOtherCluster,
  parseMark,
  type BalancerId,
  formatMark,
  type Listener,
  type Member,
  formatMember,
  readAddresses,
} from '../driver.ts';

/** The files of the configuration's maps, as commands name them. */
export const maps = {
  /** By slot: whose it is, for which port, and for how long a client stays with its member. */
  owners: 'vipnat-owners.map',
  /** By `ADDRESS:PORT`: the slot that gets its connections. */
  frontends: 'vipnat-frontends.map',
  /** What the unit's host says of it, and whether it has been filled. */
  role: 'vipnat-role.map',
  /** At which addresses and ports the unit listens. Never changes while it runs. */
  limits: 'vipnat-limits.map',
} as const;

/** The place of a server that nothing uses: an address for documentation (RFC 5737), to which nothing is ever sent. */
export const freePlace = { address: '192.0.2.1', port: 1 } as const;

/** A backend of the configuration. A listener has one. */
interface Owner {
  /** With the identity where another cluster of the same name has written it. */
  readonly mark: string;
  /** Of this cluster, where that is written there; empty otherwise. */
  readonly identity: string;
  readonly port: number;
  /** In seconds; 0 for none. */
  readonly affinityS: number;
}

/** A server of a slot. */
export interface Server {
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly weight: number;
  /** Off is HAProxy's state of maintenance: open connections stay, and no new ones come, not even those of affinity. */
  readonly isOn: boolean;
  /** Seconds since it last was switched on or off, or went up or down. */
  readonly ageS: number;
}

/** An additional entry with the key of another one. */
interface Stray {
  readonly map: string;
  readonly reference: string;
}

/** What a unit says of a cluster. */
interface Flag {
  /** As `nameCluster` writes it. */
  readonly key: string;
  /** `kept` where the unit has had all of it since its start, `lacking` where the other unit has more. */
  readonly state: string;
  /** A former one has the cluster's name alone, which another cluster may have, too: it says nothing of this one. */
  readonly whose: 'own' | 'former' | 'other';
}

/** A unit at one moment. */
export interface UnitContent extends Pick<DeviceSettings, 'identity'> {
  readonly role: string;
  /** It saves what it has, and starts again then: what is written now may be lost. */
  readonly isSaving: boolean;
  /** The key of this cluster's flag. */
  readonly ownFlag: string;
  readonly flags: readonly Flag[];
  readonly addresses: readonly AddressRange[];
  readonly ports: readonly PortRange[];
  readonly slotToOwner: ReadonlyMap<string, Owner>;
  readonly markToSlots: ReadonlyMap<string, readonly string[]>;
  readonly keyToSlot: ReadonlyMap<string, string>;
  readonly slotToKeys: ReadonlyMap<string, readonly string[]>;
  readonly strays: readonly Stray[];
  /** Of all slots of the configuration, or of those that were asked for. */
  readonly slotToServers: ReadonlyMap<string, readonly Server[]>;
}

/** What asks for all of it, but the servers of few slots where these are named. */
export function askContent(slots: readonly string[] | null = null): readonly string[] {
  return [
    ...[maps.role, maps.limits, maps.owners, maps.frontends].map((map) => `show map ${map}`),
    ...(slots ?? ['']).map((slot) => `show servers state ${slot}`.trimEnd()),
  ];
}

/** @throws DeviceError nonsense where a unit has another configuration. */
export function readContent(unit: string, answers: readonly string[], reader: Reader): UnitContent {
  const [role = '', limits = '', owners = '', frontends = '', ...servers] = answers;
  const { keyToValue: fields, strays: roleStrays } = readMap(unit, maps.role, role);
  const flags = [...fields].filter(([key]) => key.startsWith(contentOf));
  const { keyToValue: limit } = readMap(unit, maps.limits, limits);
  const { keyToValue: slotToText, strays: ownerStrays } = readMap(unit, maps.owners, owners);
  const { keyToValue: keyToSlot, strays: keyStrays } = readMap(unit, maps.frontends, frontends);
  const slotToOwner = new Map([...slotToText].map(([slot, value]) => [slot, readOwner(value, reader)]));
  return {
    identity: reader.identity,
    role: fields.get('role') ?? '',
    isSaving: fields.get('saving') === 'yes',
    ownFlag: nameCluster(reader),
    flags: flags.map(([key, state]) => readFlag(key.slice(contentOf.length), state, reader)),
    addresses: readList(limit.get('addresses')).flatMap((text) => parseRange(text) ?? []),
    ports: readList(limit.get('ports')).map((text) => {
      const [first = Number.NaN, last = first] = text.split('-').map(Number);
      return { first, last };
    }),
    slotToOwner,
    markToSlots: Map.groupBy(slotToOwner.keys(), (slot) => slotToOwner.get(slot)?.mark ?? ''),
    keyToSlot,
    slotToKeys: Map.groupBy(keyToSlot.keys(), (key) => keyToSlot.get(key) ?? ''),
    strays: [...roleStrays, ...ownerStrays, ...keyStrays],
    slotToServers: readServers(servers),
  };
}

const contentOf = 'content_';

/** Names have no underscore. Earlier versions wrote the name alone. */
function nameCluster({ cluster, identity }: Reader): string {
  return identity === undefined ? cluster : `${cluster}_${identity}`;
}

function readFlag(key: string, state: string, { cluster, identity }: Reader): Flag {
  const [name, written] = key.split('_');
  const isOther = name !== cluster || isOtherCluster(written, identity);
  const isFormer = written === undefined && identity !== undefined;
  return { key, state, whose: isOther ? 'other' : isFormer ? 'former' : 'own' };
}

/** Whether it has had all of the cluster since its start. */
export function isKept({ flags }: UnitContent): boolean {
  const named = flags.filter(({ whose }) => whose !== 'other');
  return named.length > 0 && named.every(({ whose, state }) => whose === 'own' && state === 'kept');
}

/**
 * What says that a unit has all of the cluster, as far as it does not say so. Then keepalived gives it the addresses, unless it lacks another
 * cluster that other units have. What it lacks and no unit has is forgotten: a cluster that is gone fills none.
 */
export function planKept(content: UnitContent, others: readonly UnitContent[]): string[] {
  const { flags, ownFlag } = content;
  const elsewhere = others.flatMap((other) => other.flags);
  const known = elsewhere.filter(({ whose, state }) => whose === 'other' && state === 'kept');
  const isMissing = (key: string, all: readonly Flag[]) => all.every((one) => one.key !== key);
  const isLost = ({ key, state, whose }: Flag) =>
    whose === 'other' &&
    state === 'lacking' &&
    others.length > 0 &&
    !known.some((one) => `${one.key}_`.startsWith(`${key}_`));
  const over = flags.filter((flag) => flag.whose === 'former' || isLost(flag));
  const dropped = over.map(({ key }) => `del map ${maps.role} ${contentOf}${key}`);
  if (isKept(content)) return dropped;
  const lacking = known.filter(({ key }) => isMissing(key, flags));
  return [
    ...dropped,
    ...lacking.map(({ key }) => `add map ${maps.role} ${contentOf}${key} lacking`),
    `${isMissing(ownFlag, flags) ? 'add' : 'set'} map ${maps.role} ${contentOf}${ownFlag} kept`,
    `set map ${maps.role} content kept`,
  ];
}

/** Of several entries of a key the first counts, and the others are strays. */
function readMap(unit: string, map: string, text: string) {
  const keyToValue = new Map<string, string>();
  const strays: Stray[] = [];
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const [, reference = '', key = '', value = ''] = /^(0x[0-9a-f]+) (\S+) (.*)$/.exec(line) ?? [];
    const remedy = `configure it with vipnat device configuration (${line.slice(0, 100)})`;
    if (reference === '') throw new DeviceError('nonsense', `${unit} lacks a map of vipnat: ${remedy}`);
    if (keyToValue.has(key)) strays.push({ map, reference });
    else keyToValue.set(key, value);
  }
  return { keyToValue, strays };
}

function readList(text = ''): readonly string[] {
  return text.split(',').filter((part) => part !== '');
}

/** Which cluster reads. */
type Reader = Pick<DeviceSettings, 'cluster' | 'identity'>;

/** `MARK_PORT_AFFINITY_IDENTITY`; without an identity it ends before. Each unit's configuration reads the affinity at the seventh place. */
export function formatOwner({ mark, identity, port, affinityS }: Owner): string {
  const [, own = mark, written = identity] = /^(vipnat(?:_[^_]+){4})_([\da-f]{8})$/.exec(mark) ?? [];
  return [own, port, affinityS, written].filter((part) => part !== '').join('_');
}

function readOwner(text: string, { cluster, identity }: Reader): Owner {
  const [, own = text, port = 0, affinityS = 0, written] =
    /^(.*?)_(\d+)_(\d+)(?:_([\da-f]{8}))?$/.exec(text) ?? [];
  const listener = { port: Number(port), affinityS: Number(affinityS) };
  const parsed = parseMark(own, cluster);
  if (parsed === null || isOtherCluster(written ?? parsed.rest[0], identity))
    return { mark: [own, written ?? []].flat().join('_'), identity: '', ...listener };
  return { mark: formatMark(parsed.id), identity: written ?? '', ...listener };
}

const slotName = new RegExp(`^vipnat_(${methods.join('|')})_\\d+$`);

/** The method of a slot, by its name. */
export function readMethod(slot: string): DeviceMethod {
  const [, method] = slotName.exec(slot) ?? [];
  return methods.find((one) => one === method) ?? 'rr';
}

/** In maintenance because a user set it: the state in the configuration is kept separately. Source: HAProxy's management guide, srv_admin_state. */
const forcedMaintenance = 1;

function readServers(answers: readonly string[]): ReadonlyMap<string, readonly Server[]> {
  const slotToServers = new Map<string, Server[]>();
  for (const answer of answers) {
    const lines = answer.split('\n');
    const head = lines.find((line) => line.startsWith('# ')) ?? '';
    const names = head.slice(2).split(' ');
    const at = new Map(names.map((name, index) => [name, index]));
    for (const line of lines) {
      const words = line.split(' ');
      const read = (name: string) => words[at.get(name) ?? -1] ?? '';
      const slot = read('be_name');
      if (!slotName.test(slot)) continue;
      const servers = slotToServers.get(slot) ?? [];
      if (servers.length === 0) slotToServers.set(slot, servers);
      servers.push({
        name: read('srv_name'),
        address: parseAddress(read('srv_addr'))?.text ?? read('srv_addr'),
        port: Number(read('srv_port')),
        weight: Number(read('srv_uweight')),
        isOn: (Number(read('srv_admin_state')) & forcedMaintenance) === 0,
        ageS: Number(read('srv_time_since_last_change')),
      });
    }
  }
  return slotToServers;
}

/** `10.0.9.10:443`, `2001:db8::1:443`: as HAProxy puts both together. */
export function formatKey(address: Address, port: number): string {
  return `${address.text}:${port}`;
}

/** Whether nothing uses a server. */
export function isFree({ address, port }: Pick<Server, 'address' | 'port'>): boolean {
  return address === freePlace.address && port === freePlace.port;
}

/** Why the unit does not listen there; null where it does. */
export function findUnheard({ addresses, ports }: UnitContent, wanted: Balancer): string | null {
  const remedy = 'has it, print and install its files again';
  const address = wanted.addresses.find((one) => !addresses.some((range) => contains(range, one)));
  if (address !== undefined) return `it does not listen at ${address.text}: if spec.addresses ${remedy}`;
  const isOpen = (port: number) => ports.some(({ first, last }) => first <= port && port <= last);
  const port = wanted.listeners.map((listener) => listener.port).find((one) => !isOpen(one));
  return port === undefined ? null : `it does not listen at port ${port}: if the option ports ${remedy}`;
}

/** The slot of each port of a balancer, of those that fit: that which gets connections, where there are two. */
export function chooseSlots(
  { markToSlots, slotToOwner, slotToKeys }: UnitContent,
  mark: string,
  fits: (slot: string) => boolean = () => true,
): ReadonlyMap<number, string> {
  const portToSlot = new Map<number, string>();
  for (const slot of markToSlots.get(mark)?.filter(fits) ?? []) {
    const port = slotToOwner.get(slot)?.port ?? 0;
    const other = portToSlot.get(port);
    if (other === undefined || (slotToKeys.has(slot) && !slotToKeys.has(other))) portToSlot.set(port, slot);
  }
  return portToSlot;
}

/** The balancers of all clusters of a name, by their marks. */
export function readBalancers(content: UnitContent, cluster: string): ReadonlyMap<string, Balancer> {
  const found = [...content.markToSlots.keys()].map((mark) => [mark, parseMark(mark, cluster)] as const);
  return new Map(
    found.flatMap(([mark, parsed]) =>
      parsed === null ? [] : [[mark, readBalancer(content, mark, parsed.id)]],
    ),
  );
}

function readBalancer(content: UnitContent, mark: string, id: BalancerId): Balancer {
  const portToSlot = chooseSlots(content, mark);
  const [first = ''] = portToSlot.values();
  const keys = [...portToSlot.values()].flatMap((slot) => content.slotToKeys.get(slot) ?? []);
  const affinityS = content.slotToOwner.get(first)?.affinityS ?? 0;
  return {
    id,
    addresses: readAddresses(keys.map((key) => key.slice(0, key.lastIndexOf(':')))),
    listeners: [...portToSlot].map(([port, slot]): Listener => ({
      protocol: 'tcp',
      port,
      members: readMembers(content.slotToServers.get(slot) ?? []).map(({ member }) => member),
    })),
    method: readMethod(first),
    affinityS: affinityS === 0 ? null : affinityS,
  };
}

/** The members of a slot, each once, with the server that each is. */
export function readMembers(
  servers: readonly Server[],
): readonly { readonly member: Member; readonly server: Server }[] {
  const nameToMember = new Map<string, { readonly member: Member; readonly server: Server }>();
  for (const server of servers) {
    const address = parseAddress(server.address);
    if (address === null || isFree(server)) continue;
    const member = { address, port: server.port, weight: server.isOn ? server.weight : 0 };
    const name = formatMember(member);
    if (!nameToMember.has(name)) nameToMember.set(name, { member, server });
  }
  return [...nameToMember.values()];
}

/** The shell script that a unit's systemd and keepalived call. It saves what the unit has when that stops or reloads, and tells it its role. */
export function formatScript(folders: Readonly<Record<'configuration' | 'state' | 'run', string>>): string {
  const { configuration, state, run } = folders;
  return `#!/bin/sh
# Written by vipnat device configuration. Saves what HAProxy has got at run time, and tells HAProxy the role of its host.
# What is saved is read once, and within a minute: later it would send clients to members that are gone.
set -eu
umask 022
export LC_ALL=C
configuration=${configuration}
state=${state}
run=${run}
${scriptBody}`;
}

const scriptBody = `kept='${maps.owners} ${maps.frontends}'

ask() {
    printf '%s\\n' "$1" | socat -t 20 - "UNIX-CONNECT:$run/admin.sock"
}

# A pipe would hide that HAProxy has not answered.
show() {
    ask "show map $1" > "$run/shown"
    sed -n 's/^0x[0-9a-f]* //p' "$run/shown"
}

# Seconds since the host started: a clock can jump.
uptime() {
    cut -d . -f 1 /proc/uptime
}

# The next start begins with nothing.
empty() {
    rm -f "$run/saved"
    for map in $kept; do : > "$state/$map"; done
    echo 1 > "$state/servers.state"
    printf 'role unknown\\nsaving no\\ncontent empty\\n' > "$state/${maps.role}"
}

# From the first line on the driver writes nothing here. HAProxy that answers the last question has answered all.
save() {
    ask 'set map ${maps.role} saving yes' > "$run/answer"
    for map in $kept ${maps.role}; do show "$map" > "$state/$map.new"; done
    ask 'show servers state' > "$state/servers.state.new"
    grep -q '^# be_id' "$state/servers.state.new"
    sed -i 's/^saving yes$/saving no/' "$state/${maps.role}.new"
    show ${maps.role} > "$run/answer"
    grep -q '^saving yes$' "$run/answer"
    for file in $kept servers.state ${maps.role}; do mv "$state/$file.new" "$state/$file"; done
    uptime > "$run/saved"
}

resume() {
    ask 'set map ${maps.role} saving no' > "$run/answer" || :
    empty
}

case "\${1:-}" in
prepare) # before a start
    mkdir -p "$state" "$run"
    saved=$(cat "$run/saved" 2> /dev/null || :)
    [ -n "$saved" ] && [ $(($(uptime) - saved)) -le 60 ] || empty
    sed -i 's/^role .*/role unknown/' "$state/${maps.role}"
    ;;
loaded) # after a start
    empty
    echo 0 > "$state/ended"
    ;;
ended) # after an end, whatever it came of
    echo 1 > "$state/ended"
    ;;
save) # before a stop
    trap empty EXIT
    trap 'exit 1' HUP INT TERM
    save
    trap - EXIT
    ;;
reload) # with the process id of HAProxy's master
    trap resume EXIT
    trap 'exit 1' HUP INT TERM
    save
    haproxy -c -q -f "$configuration/haproxy.cfg"
    kill -USR2 "$2"
    for _ in $(seq 300); do
        if show ${maps.role} 2> /dev/null | grep -q '^saving no$'; then trap empty EXIT; exit 0; fi
        sleep 0.1
    done
    exit 1
    ;;
notify) # by keepalived: INSTANCE NAME STATE PRIORITY
    if [ "$4" = MASTER ]; then role=active; else role=standby; fi
    echo "$role" > "$run/role.new"
    mv "$run/role.new" "$run/role"
    "$0" check || :
    ;;
check) # by keepalived: whether this unit can serve
    role=$(cat "$run/role" 2> /dev/null || echo unknown)
    ask "set map ${maps.role} role $role;show map ${maps.role}" |
        awk '/ content kept$/ { has = 1 } / lacking$/ { lacks = 1 } END { exit !has || lacks }'
    ;;
*)
    echo "usage: $0 prepare|loaded|ended|save|reload PID|notify INSTANCE NAME STATE PRIORITY|check" >&2
    exit 64
    ;;
esac
`;
