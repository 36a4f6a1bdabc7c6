/**
 * The files of a unit of HAProxy that vipnat configures.
 *
 * Goal: HAProxy has all that cannot be changed at run time, and never serves what it had once.
 * Tension: what it gets at run time is lost at its end, and what is saved is old from the next change on.
 * Compromise: its unit of systemd saves maps and servers when it stops or reloads it. They are read once, within a minute, and are emptied then.
 * While it saves, the driver writes nothing. After a crash HAProxy begins empty: keepalived moves the addresses to the other unit, and
 * the driver fills the empty one from there. systemd writes a file for keepalived when HAProxy has ended: a check each second would come late.
 */
import { type DeviceSettings, type DeviceMethod, type Refuse, refuseSettings } from '../driver.ts';
import {
  type AddressRange,
  mergeRanges,
  parseAddress,
  parseRange,
  contains,
  countAddresses,
  fromNumber,
  formatRange,
} from '../../lib/net.ts';
import {
  readSettings,
  type HaproxySettings,
  type HaproxyAddress,
  affinityTimesS,
  methods,
} from './settings.ts';
import { maps, formatScript, freePlace } from './content.ts';
import { createHash } from 'node:crypto';
import { listAnnouncementLines } from '../../lib/keepalived/write.ts';
import { findVrid } from '../../lib/keepalived/read.ts';

type UnitFile = Readonly<ReturnType<typeof toFile>>;

/** As docs/device-haproxy.md says. */
const usualFolders = {
  /** haproxy.cfg and tls.pem. */
  configuration: '/etc/vipnat-haproxy',
  /** What is saved. */
  state: '/var/lib/vipnat-haproxy',
  /** The socket and the role, which a start of the host empties. */
  run: '/run/vipnat-haproxy',
  /** keepalived runs none that others than root could change. /usr/local is writable for a group on hosts that were an older Debian. */
  script: '/etc/vipnat-haproxy/unit',
};

/** Where things are on a unit's host. */
export type UnitFolders = Readonly<typeof usualFolders>;

/** HAProxy has a socket for each address and port. More make its start slow. */
const maxSockets = 20_000;

/** keepalived has a route and a gratuitous ARP for each. */
const maxAddresses = 1000;

/** The files of one unit, `at` 0 or 1; of a pair, keepalived's too. @throws VipnatError DEVICE_SETTINGS_INVALID, also for too many sockets */
export function configureUnit(
  settings: DeviceSettings,
  addresses: readonly AddressRange[],
  at: number,
  folders: UnitFolders = usualFolders,
): readonly UnitFile[] {
  const read = readSettings(settings);
  const refuse = refuseSettings(settings);
  const [unit, other] = [read.units[at], read.units[1 - at]];
  if (unit === undefined)
    throw refuse(`it has ${read.units.length} units: --unit is a number from 1 to ${read.units.length}`);
  const ranges = mergeRanges(addresses);
  checkExtent(refuse, read, ranges);
  const files = [
    toFile(`${folders.configuration}/haproxy.cfg`, formatHaproxy(read, unit, ranges, folders)),
    toFile(`${folders.state}/${maps.limits}`, formatLimits(read, ranges)),
    toFile(folders.script, formatScript(folders), '0755'),
    toFile('/etc/systemd/system/vipnat-haproxy.service', formatService(folders)),
  ];
  if (other === undefined) return files;
  const pair = [unit, other] as const;
  const inOrder = announceFirst(refuse, pair, listAddresses(ranges));
  const router = { ...read.options, vrid: chooseVrid(refuse, read) };
  const keepalived = formatKeepalived(router, pair, inOrder, folders);
  return [...files, toFile('/etc/keepalived/keepalived.conf', keepalived)];
}

function toFile(path: string, text: string, mode: '0644' | '0755' = '0644') {
  return { path, mode, text };
}

/** A shell script that writes these files on the host that runs it. It starts nothing. */
export function formatInstaller(files: readonly UnitFile[]): string {
  const folders = [...new Set(files.map(({ path }) => path.slice(0, path.lastIndexOf('/'))))];
  return [
    '#!/bin/sh',
    '# Written by vipnat device configuration. Run it as root on the unit: it writes these files, and starts nothing.',
    'set -eu',
    'umask 022',
    `mkdir -p ${folders.join(' ')}`,
    ...files.flatMap(({ path, mode, text }) => [
      '',
      `cat > ${path} <<'END_OF_FILE'`,
      text.trimEnd(),
      'END_OF_FILE',
      `chmod ${mode} ${path}`,
    ]),
    '',
  ].join('\n');
}

function checkExtent(refuse: Refuse, settings: HaproxySettings, ranges: readonly AddressRange[]): void {
  const { options, units } = settings;
  const own = units.flatMap(({ host }) => parseAddress(host) ?? []);
  const moved = own.find((address) => ranges.some((range) => contains(range, address)));
  if (moved !== undefined)
    throw refuse(`spec.addresses has ${moved.text}, which is a unit's own and would move to the other unit`);
  const strange = options.management.find((text) => text.includes('-') || parseRange(text) === null);
  if (strange !== undefined)
    throw refuse(`option management has ${JSON.stringify(strange)}. Example: 10.0.0.0/24,10.0.1.7`);
  const count = Number(ranges.reduce((sum, range) => sum + countAddresses(range), 0n));
  const ports = options.ports.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  if (count === 0) throw refuse('spec.addresses is empty: it has the addresses that Services may get');
  if (count > maxAddresses)
    throw refuse(`spec.addresses has ${count} addresses: at most ${maxAddresses} are possible`);
  if (count * ports > maxSockets)
    throw refuse(`${count} addresses with ${ports} ports each are too many: at most ${maxSockets} together`);
}

/** One after the other. */
function listAddresses(ranges: readonly AddressRange[]): string[] {
  return ranges.flatMap((range) =>
    Array.from(
      { length: Number(countAddresses(range)) },
      (_, at) => fromNumber(range.family, range.first + BigInt(at)).text,
    ),
  );
}

function formatHaproxy(
  { options, login }: HaproxySettings,
  { host, port }: HaproxyAddress,
  ranges: readonly AddressRange[],
  folders: UnitFolders,
): string {
  const ports = options.ports.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`));
  const binds = listAddresses(ranges).map(
    (address) => `    bind ${ports.map((range) => `${bracket(address)}:${range}`).join(',')} transparent`,
  );
  // As HAProxy's converter hex prints it.
  const hashed = createHash('sha256').update(login).digest('hex').toUpperCase();
  return `${formatGlobal(folders)}# The runtime interface. The first line of each connection has a hash of user name and password. Here is a hash of that line.
frontend vipnat_runtime
    bind ${bracket(host)}:${port} ssl crt ${folders.configuration}/tls.pem ssl-min-ver TLSv1.2
    maxconn 500
    # For the handshake and that line. Afterwards the tunnel's time counts.
    timeout client 5s
${options.management.map((network) => `    acl vipnat_management src ${network}`).join('\n')}
    tcp-request connection reject unless vipnat_management
    tcp-request inspect-delay 5s
    tcp-request content accept if { req.payload(0,${login.length}),sha2(256),hex -m str ${hashed} }
    tcp-request content reject if { req.len ge ${login.length} } || WAIT_END
    default_backend vipnat_runtime

backend vipnat_runtime
    timeout server 30s
    timeout tunnel 30s
    server socket unix@${folders.run}/admin.sock

frontend vipnat
${binds.join('\n')}
    tcp-request connection set-var(sess.vipnat_port) dst_port
    tcp-request connection set-var(sess.vipnat_slot) dst,concat(:,sess.vipnat_port),map_str(${maps.frontends})
    tcp-request connection reject unless { var(sess.vipnat_slot) -m found }
    use_backend %[var(sess.vipnat_slot)]

# Read by the driver, used by nothing.
backend vipnat_limits
    tcp-request content reject if { src,map_str(${maps.limits}) -m found } { src,map_str(${maps.role}) -m found }

# One for each time that a client can stay with its member.
${affinityTimesS.map((time) => `backend vipnat_affinity_${time}\n    stick-table type string len 80 size 100k expire ${time}s\n`).join('\n')}
# The slots: each listener of a balancer gets one of its method. Servers without a member are off.
${methods.flatMap((method) => Array.from({ length: options.slots[method] }, (_, slot) => formatSlot(method, slot + 1, options))).join('\n')}
`;
}

function formatGlobal(folders: UnitFolders): string {
  return `# Written by vipnat device configuration. The driver haproxy of vipnat changes the rest at run time.
global
    default-path origin ${folders.state}
    stats socket ${folders.run}/admin.sock user haproxy group haproxy mode 600 level admin
    stats timeout 30s
    server-state-file ${folders.state}/servers.state
    user haproxy
    group haproxy
    fd-hard-limit 100000
    log stdout format short daemon notice

defaults
    mode tcp
    log global
    load-server-state-from-file global
    timeout connect 3s
    timeout queue 3s
    timeout client 24h
    timeout server 24h
    option clitcpka
    option srvtcpka
    option redispatch 1
    retries 3

`;
}

const methodToLines: Readonly<Record<DeviceMethod, readonly string[]>> = {
  rr: ['balance roundrobin'],
  lc: ['balance leastconn'],
  hash: ['balance source', 'hash-type consistent'],
};

function formatSlot(method: DeviceMethod, number: number, options: HaproxySettings['options']): string {
  const name = `vipnat_${method}_${number}`;
  const sticks = affinityTimesS.map((time, at) => {
    const least = (affinityTimesS[at - 1] ?? 0) + 1;
    const condition = `be_name,map_str(${maps.owners}),field(7,_) -m int ${least}:${time}`;
    return `stick on src,concat(/${name}) table vipnat_affinity_${time} if { ${condition} }`;
  });
  const { address, port } = freePlace;
  return [
    `backend ${name}`,
    ...methodToLines[method],
    ...sticks,
    // A member that waits for the header would take a check without it for a broken connection.
    `default-server check inter 2s fall 2 rise 1${options.sendsProxy ? ' send-proxy-v2 check-send-proxy' : ''}`,
    // A saved address comes back only to a server that has a name instead of one.
    `server-template s ${options.members} free.invalid:${port} init-addr last,${address} disabled`,
    '',
  ]
    .join('\n    ')
    .trimEnd();
}

function formatLimits({ options }: HaproxySettings, ranges: readonly AddressRange[]): string {
  const ports = options.ports.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`));
  return `addresses ${ranges.map(formatRange).join(',')}\nports ${ports.join(',')}\n`;
}

function formatService({ configuration, run, script }: UnitFolders): string {
  return `# Written by vipnat device configuration.
[Unit]
Description=HAProxy for Services of Kubernetes, configured by vipnat
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
RuntimeDirectory=vipnat-haproxy
RuntimeDirectoryPreserve=yes
StateDirectory=vipnat-haproxy
ExecStartPre=${script} prepare
ExecStart=/usr/sbin/haproxy -Ws -f ${configuration}/haproxy.cfg -p ${run}/haproxy.pid
ExecStartPost=${script} loaded
ExecReload=${script} reload $MAINPID
ExecStop=${script} save
ExecStopPost=${script} ended
KillMode=mixed
SuccessExitStatus=143
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
`;
}

/** The same for both units. An address of a unit stays when `spec.addresses` change: of two numbers, both units would have all addresses. */
function chooseVrid(refuse: Refuse, { options, units: [first] }: HaproxySettings): number {
  const address = parseAddress(first?.host ?? '');
  const vrid = options.vrid ?? (address === null ? null : findVrid(address));
  if (vrid !== null) return vrid;
  throw refuse(`the last byte of the unit ${address?.text} plus one is 256: set the option vrid`);
}

function formatKeepalived(
  options: Readonly<{ interface: string; vrid: number }>,
  [unit, other]: Pair,
  [announced = '', ...rest]: readonly string[],
  folders: UnitFolders,
): string {
  const line = (text: string) => `        ${text}/${isIpv6(text) ? 128 : 32} dev ${options.interface}`;
  return `${formatChecks(folders, rest.length + 1)}
vrrp_instance vipnat_haproxy {
    state BACKUP
    interface ${options.interface}
    virtual_router_id ${options.vrid}
    # The higher it is, the sooner this unit takes over.
    priority 200
    # Three that are missed take less than a second: a client sends a lost SYN again then.
    advert_int 0.3
    unicast_src_ip ${unit.host}
    unicast_peer {
        ${other.host}
    }
    virtual_ipaddress {
${line(announced)}
    }
${rest.length === 0 ? '' : `    virtual_ipaddress_excluded {\n${rest.map(line).join('\n')}\n    }\n`}    track_script {
        vipnat_haproxy
    }
    track_file {
        vipnat_haproxy_ended
    }
    notify "${folders.script} notify"
}
`;
}

const isIpv6 = (text: string) => text.includes(':');

const bracket = (host: string) => (isIpv6(host) ? `[${host}]` : host);

/** The unit, and the other one. */
type Pair = readonly [HaproxyAddress, HaproxyAddress];

/** VRRP announces addresses of its own family, and at least one. The rest comes and goes with them. */
function announceFirst(refuse: Refuse, pair: Pair, addresses: readonly string[]): readonly string[] {
  for (const { host } of pair)
    if (parseAddress(host) === null)
      throw refuse(`unit ${host} of a pair is not an address, which keepalived needs`);
  const [unit, other] = pair;
  const announced = addresses.find((text) => isIpv6(text) === isIpv6(unit.host));
  if (announced !== undefined && isIpv6(unit.host) === isIpv6(other.host))
    return [announced, ...addresses.filter((text) => text !== announced)];
  const family = isIpv6(unit.host) ? 'IPv6' : 'IPv4';
  const what = `the other unit and at least one of spec.addresses must be ${family}, as the unit ${unit.host} is`;
  throw refuse(what);
}

function formatChecks({ script, state }: UnitFolders, addresses: number): string {
  return `# Written by vipnat device configuration.
global_defs {
    enable_script_security
    script_user root
    vrrp_version 3
    # A router that missed the first announcements learns where the addresses are.
    ${listAnnouncementLines(addresses).join('\n    ')}
}

vrrp_script vipnat_haproxy {
    script "${script} check"
    interval 1
    timeout 2
    fall 2
    rise 1
    # Who cannot serve still does where the other one cannot either.
    weight -50
}

# Not 0 where HAProxy does not run: this unit gives the addresses away immediately.
track_file vipnat_haproxy_ended {
    file "${state}/ended"
    weight 0
}
`;
}
