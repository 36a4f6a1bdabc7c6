/**
 * vipnat as a service of systemd, beside a keepalived that is one too.
 *
 * Goal: at boot keepalived finds the file by which the agent says whether this node can serve, whoever starts first; and
 * whatever ends the agent, its last word does not outlive it.
 * Tension: /run is empty at boot, and keepalived 2.2.7 does without a track file for good whose folder is not there when
 * it starts. An agent that is killed cannot take anything back.
 * Compromise: tmpfiles.d makes the folder before any service, keepalived's drop-in makes it once more where it was removed
 * since, and neither waits for the other. What the agent said is taken back by systemd (ADR 18).
 */
import { toArguments } from '../../../config/arguments.ts';
import { type Config } from '../../../config/config.ts';
import { schema } from '../../../config/options.ts';
import {
  listTmpfilesLines,
  locateServingFile,
  toTmpfilesFolder,
} from '../../../lib/keepalived/serving-file.ts';
import { type ManifestRequest, toCommandLine } from './request.ts';

/** A file for a host. */
export interface HostFile {
  /** From the root on. */
  readonly path: string;
  readonly text: string;
}

/** How the first line of each of these files begins: by it a later version knows them as vipnat's. */
export const fileMark = '# vipnat manifest systemd';

/** How vipnat is on a host. */
interface Installation {
  /** What each file begins with: a line of comment. */
  readonly head: string;
  /** What the unit starts. */
  readonly words: readonly string[];
  /** Whose files these are: of /etc, or of a package, which the ones in /etc overrule. */
  readonly folders: { readonly units: string; readonly tmpfiles: string };
  readonly config: Pick<Config, 'runDir' | 'stateDir' | 'sysctls'>;
}

/** The unit, what tmpfiles.d makes at boot, and what keepalived's unit is told besides. Pure. */
export function toSystemdFiles(request: ManifestRequest): HostFile[] {
  const { config, given, ownProgram } = request;
  return renderFiles({
    head: `# ${toCommandLine(request)}`,
    words: [...ownProgram, 'run', ...toArguments(config, given)],
    folders: { units: '/etc/systemd/system', tmpfiles: '/etc/tmpfiles.d' },
    config,
  });
}

/** The same as a package has them, for an agent that has its options from a file. Pure. */
export function toPackagedSystemdFiles(program: string, configFile: string): HostFile[] {
  return renderFiles({
    head: '# From the package vipnat. A file of the same name in /etc replaces this file. systemctl edit changes parts of it.',
    words: [program, 'run', '--config', configFile],
    folders: { units: '/usr/lib/systemd/system', tmpfiles: '/usr/lib/tmpfiles.d' },
    config: schema.parse({}),
  });
}

function renderFiles(installation: Installation): HostFile[] {
  const { head, folders, config } = installation;
  return [
    { path: `${folders.units}/vipnat.service`, text: `${head}\n${renderService(installation)}` },
    { path: `${folders.tmpfiles}/vipnat.conf`, text: `${head}\n${renderTmpfiles(config)}` },
    { path: `${folders.units}/keepalived.service.d/vipnat.conf`, text: `${head}\n${keepalivedDropIn}` },
  ];
}

function renderService({ words, config }: Installation): string {
  const { runDir, stateDir, sysctls } = config;
  const file = locateServingFile(runDir);
  return `[Unit]
Description=vipnat: balances the virtual IP of the Kubernetes API
Wants=network-online.target
After=network-online.target
# systemd restarts the agent however often it fails.
StartLimitIntervalSec=0

[Service]
ExecStart=${words.map(quoteUnitWord).join(' ')}
# keepalived must not follow the ended agent's last value. If another agent runs here, that agent writes the file.
ExecStopPost=-/bin/sh -c 'grep -q "@vipnat-agent$$" /proc/net/unix || ! test -e ${file} || echo 0 >${file}'
Restart=always
RestartSec=2
# Exit status 78 means bad configuration: a restart would not help.
RestartPreventExitStatus=78
# Without the agent the rules stay, but no program removes a dead apiserver from them.
OOMScoreAdjust=-900
# The folders stay when the agent ends, because keepalived watches one of them.
${renderFolders(runDir, stateDir)}
${renderRights(sysctls)}

[Install]
WantedBy=multi-user.target
`;
}

/** What the agent needs, and nothing else. */
function renderRights(sysctls: Config['sysctls']): string {
  return `# The agent needs only this: to write rules, to change the connection table, to raise its own priority.
# It finds drained masters by connections from ports below 1024 (CAP_NET_BIND_SERVICE).
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_BIND_SERVICE CAP_NET_RAW CAP_SYS_NICE
NoNewPrivileges=yes
ProtectSystem=strict
# iptables-legacy creates /run/xtables.lock.
ReadWritePaths=/run
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
# Unless --sysctls is check, the agent switches IP forwarding on through /proc/sys.
ProtectKernelTunables=${sysctls === 'check' ? 'yes' : 'no'}
# The agent opens sockets of these families only.
RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
# The system calls of a service, and memory keys for Node.js. A refused call is an error, and ends no program.
SystemCallFilter=@system-service @pkey
SystemCallErrorNumber=EPERM`;
}

/** Folders below /run and /var/lib systemd makes before it starts the program; others tmpfiles.d has made. */
function renderFolders(runDir: string, stateDir: string): string {
  const lines = [runDir, stateDir].map((folder) => {
    const path = folder.replace(/\/$/, '');
    if (path.startsWith('/run/')) return `RuntimeDirectory=${path.slice('/run/'.length)}`;
    if (path.startsWith('/var/lib/')) return `StateDirectory=${path.slice('/var/lib/'.length)}`;
    return `ReadWritePaths=${path}`;
  });
  return [...lines, 'RuntimeDirectoryPreserve=yes'].join('\n');
}

/** What is there already stays as it is: the agent may have said 1. */
function renderTmpfiles({ runDir, stateDir }: Installation['config']): string {
  return `# keepalived follows this file only if it exists when keepalived starts. 0: this node can serve the VIP.
${[...listTmpfilesLines(runDir), toTmpfilesFolder(stateDir)].join('\n')}
`;
}

/** keepalived starts all the same when it fails. */
const keepalivedDropIn = `[Unit]
After=systemd-tmpfiles-setup.service

[Service]
# Without the file from tmpfiles.d/vipnat.conf, keepalived would ignore the agent until a reload.
ExecStartPre=-+/bin/systemd-tmpfiles --create vipnat.conf
`;

/** A word of ExecStart= as systemd.service(5) takes it apart: % and $ stand for something there. */
function quoteUnitWord(word: string): string {
  const escaped = word.replaceAll('%', '%%').replaceAll('$', () => '$$');
  if (/^[\w@%+=:,./[\]$-]+$/.test(escaped)) return escaped;
  return `"${escaped.replaceAll(/[\\"]/g, String.raw`\$&`)}"`;
}
