import {
  type ManifestKind,
  type ManifestRequest,
  ownProgram,
  toPodArguments,
  toServicesArguments,
} from './request.ts';
import {
  toPodSpec,
  everyTaint as tolerations,
  controlPlane,
  toDaemonSet,
  onTheHost,
  toInitContainer,
  escapeVariables,
  toConfined,
  toKeepalivedContainer,
  toManifest,
  explain,
  formatManifests,
  pidVolume,
} from './pod.ts';
import { toServicesManifests } from './services.ts';
import { toAccount, toRole, type Rights, allow } from './rights.ts';
import { type OptionName, type Config, schema } from '../../config/options.ts';
import {
  locateKeepalivedFile,
  locateServingFile,
  listTmpfilesLines,
  toTmpfilesFolder,
  removeRoutes,
} from '../../lib/keepalived/write.ts';
import { dirname } from 'node:path';
import { toKeepalivedArguments } from '../keepalived.ts';
import { formatFlags } from '../command.ts';
import { toArguments } from '../../config/load.ts';
import { refuseForeignFile, replaceFile, notWritten } from '../../lib/files.ts';
import { quoteWords } from '../../lib/text.ts';

const name = 'vipnat';

/** What a kind of manifest is made of, and what to do with it, in a line. */
const kindToPrinter: Readonly<
  Record<Exclude<ManifestKind, 'systemd'>, { make: (request: ManifestRequest) => object[]; use: string }>
> = {
  daemonset: {
    make: toDaemonSetManifests,
    use: 'Apply this file with kubectl apply -f. The nodes must be able to pull the image.',
  },
  'static-pod': {
    make: (request) => [toStaticPod('vipnat', request, toPodSpec(request, 'static-pod'))],
    use: 'Copy this file to /etc/kubernetes/manifests on each control-plane node. The node must be able to pull the image.',
  },
  keepalived: {
    make: (request) => [toStaticPod('keepalived', request, toKeepalivedSpec(request))],
    use: `Copy this file to /etc/kubernetes/manifests on each control-plane node. Load both images first: a node may need the VIP
to pull them.`,
  },
  services: { make: toServicesManifests, use: 'Apply this file with kubectl apply -f.' },
};

/** A manifest as YAML, ready to be applied: its first line is the command that prints it. That of systemd has all files, each behind its path. */
export function printManifest(request: ManifestRequest): string {
  const { kind } = request.options;
  // As `systemctl cat` has them.
  if (kind === 'systemd')
    return toSystemdFiles(request)
      .map(({ path, text }) => `# ${path}\n${text}`)
      .join('\n');
  const { make, use } = kindToPrinter[kind];
  return formatManifests(`${toCommandLine(request)}\n${use}`, make(request));
}

/** A DaemonSet for the control-plane nodes, and what it may do with the API: follow the Service default/kubernetes and its EndpointSlice, and write events. */
function toDaemonSetManifests(request: ManifestRequest): object[] {
  const account = { name, namespace: request.options.namespace };
  const pod = { serviceAccountName: name, affinity, tolerations, ...toPodSpec(request, 'daemonset') };
  return [
    toAccount(account),
    ...toRole({ name, namespace: 'default' }, account, rights),
    toDaemonSet(account, pod),
  ];
}

/**
 * What agent/api.ts and lib/kubernetes/writes.ts ask for: by its name each time, as a list that is limited to
 * names has to be. What is created has no name to be limited to.
 */
const rights: Rights = {
  purpose: 'To read the apiservers and the Service default/kubernetes, and to write events about nodes.',
  rules: [
    allow('discovery.k8s.io', 'endpointslices', 'list watch', ['kubernetes']),
    allow('', 'services', 'list watch', ['kubernetes']),
    allow('events.k8s.io', 'events', 'create patch'),
  ],
};

/** By the label alone: its value is empty where kubeadm sets it, and `true` where RKE2 and k3s do. */
const affinity = {
  nodeAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [{ matchExpressions: [controlPlane] }],
    },
  },
};

/**
 * keepalived as a static pod, from one file for all nodes.
 *
 * Goal: the VIP is up before the API is, and stays where it is whatever becomes of the agent.
 * Tension: keepalived.conf is another one on each node (interface, own address, priority), and a static pod can refer
 * to nothing but files of the host.
 * Compromise: an init container of vipnat's image writes it for the node, with the host's network before its eyes, into
 * the folder where the agent says whether this node can serve. Nobody's /etc/keepalived is overwritten.
 */

/** What of the configuration keepalived.conf follows from. */
const configNames: readonly OptionName[] = ['vip', 'endpoints', 'runDir'];

/** A pod of keepalived, the same on every node. */
function toKeepalivedSpec(request: ManifestRequest): object {
  const file = locateKeepalivedFile(request.config.runDir);
  const writing = "It writes this node's keepalived.conf: interface, own address, priority.";
  const keeping = 'keepalived has its own pod, so the VIP does not move when the agent restarts.';
  const purpose = 'keepalived.conf, and the track file: whether this node can serve the VIP';
  const hostPath = { path: dirname(file), type: 'DirectoryOrCreate' };
  return {
    ...onTheHost,
    // The VIP is handed over immediately.
    terminationGracePeriodSeconds: 10,
    initContainers: [explain(writing, toWriter(request, file))],
    containers: [explain(keeping, toKeeper(request, file))],
    volumes: [explain(purpose, { name: 'keepalived', hostPath }), pidVolume],
  };
}

/** A node without its interface fails it: the kubelet tries again until the node has one. */
function toWriter(request: ManifestRequest, file: string): object {
  const { config, given, options } = request;
  const names = new Set(configNames.filter((name) => given.has(name)));
  const switches = toKeepalivedArguments({ ...options, output: file });
  return toInitContainer(request, 'configuration', {
    args: ['keepalived', ...toArguments(config, names), ...switches].map(escapeVariables),
    securityContext: toConfined([]),
    volumeMounts: [{ name: 'keepalived', mountPath: dirname(file) }],
  });
}

function toKeeper(request: ManifestRequest, file: string): object {
  return toKeepalivedContainer(request, {
    // One that was killed leaves pid files, whose pid every next one of this container has.
    command: ['sh', '-c', 'rm -f /run/*.pid; exec keepalived "$@"', 'sh'],
    args: ['--dont-fork', '--log-console', '--vrrp', `--use-file=${escapeVariables(file)}`],
    volumeMounts: [
      { name: 'pids', mountPath: '/run' },
      { name: 'keepalived', mountPath: dirname(file) },
    ],
  });
}

/** The value of the class system-node-critical. For a file the kubelet does not look it up; kubeadm writes it out too. */
const systemNodeCritical = 2_000_001_000;

/** A pod for the kubelet's folder of manifests: it needs no API, and has no credentials for it. */
function toStaticPod(name: string, { options: { namespace } }: ManifestRequest, pod: object): object {
  const spec = { automountServiceAccountToken: false, priority: systemNodeCritical, ...pod };
  return toManifest({ apiVersion: 'v1', kind: 'Pod', name, namespace }, { spec });
}

/**
 * Writes files below a folder, each whole or not at all; answers their paths. Files of the same names that are not
 * vipnat's stay as they are: then nothing is written.
 * @throws VipnatError OUTPUT_NOT_WRITTEN
 */
export async function writeHostFiles(files: readonly HostFile[], folder: string): Promise<string[]> {
  const root = folder.replace(/\/+$/, '');
  const placed = files.map(({ path, text }) => ({ path: `${root}${path}`, text }));
  for (const { path } of placed) await refuseForeignFile(path, fileMark, 'vipnat manifest systemd');
  for (const { path, text } of placed) {
    await replaceFile(path, text).catch((error: unknown) => {
      throw notWritten(path, error);
    });
  }
  return placed.map(({ path }) => path);
}

/**
 * vipnat as a service of systemd, next to a keepalived that is one too.
 *
 * Goal: at boot keepalived finds the file by which the agent says whether this node can serve, whoever starts first; and
 * when the agent ends, however that happens, its last report is removed.
 * Tension: /run is empty at boot, and keepalived 2.2.7 never reads a track file whose folder is not there when
 * it starts. An agent that is killed cannot take anything back.
 * Compromise: tmpfiles.d makes the folder before any service, keepalived's drop-in makes it once more where it was removed
 * since, and neither waits for the other. What the agent said is taken back by systemd (docs/design.md).
 */

interface HostFile {
  /** From the root on. */
  readonly path: string;
  readonly text: string;
}

/** How the first line of each of these files begins: by it a later version knows them as vipnat's. */
const fileMark = '# vipnat manifest systemd';

interface Installation {
  /** What each file begins with: a line of comment. */
  readonly head: string;
  /** What the unit starts. */
  readonly words: readonly string[];
  /** Whose files these are: of /etc, or of a package, which the ones in /etc overrule. */
  readonly folders: { readonly units: string; readonly tmpfiles: string };
  readonly config: Pick<Config, 'runDir' | 'stateDir' | 'sysctls'>;
}

/** The unit, what tmpfiles.d makes at boot, and the additional settings of keepalived's unit. Pure. */
export function toSystemdFiles(request: ManifestRequest): HostFile[] {
  const { config, given } = request;
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
    { path: `${folders.units}/keepalived.service.d/vipnat.conf`, text: `${head}\n${renderDropIn(config)}` },
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
# No local route may outlive the VIP here. keepalived must not follow the ended agent's last value, unless this host is drained.
# If another agent runs here, both are that agent's.
ExecStopPost=-/bin/sh -c '${hasAgent} || { ${removeRoutes}; ! test -e ${file} || ${isLeaving(stateDir)} || echo 0 >${file}; }'
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

const hasAgent = 'grep -q "@vipnat-agent$$" /proc/net/unix';

/** Whether this host is drained, and its VIPs are to leave it: for a shell. */
function isLeaving(stateDir: string): string {
  return `{ test -e ${stateDir}/drained && ! grep -q vip-stays ${stateDir}/drained; }`;
}

/** keepalived starts all the same when one of these fails. */
function renderDropIn({ runDir, stateDir }: Installation['config']): string {
  return `[Unit]
After=systemd-tmpfiles-setup.service

[Service]
# Without the file from tmpfiles.d/vipnat.conf, keepalived would ignore the agent until a reload.
ExecStartPre=-+/bin/systemd-tmpfiles --create vipnat.conf
# At a boot, a drained host does not take the VIP before its agent runs.
ExecStartPre=-+/bin/sh -c '${hasAgent} || { ${isLeaving(stateDir)} && echo 1 >${locateServingFile(runDir)}; }'
`;
}

/** A word of ExecStart= as systemd.service(5) takes it apart: % and $ stand for something there. */
function quoteUnitWord(word: string): string {
  const escaped = word.replaceAll('%', '%%').replaceAll('$', () => '$$');
  if (/^[\w@%+=:,./[\]$-]+$/.test(escaped)) return escaped;
  return `"${escaped.replaceAll(/[\\"]/g, String.raw`\$&`)}"`;
}

/** The command that prints the same manifest, wherever it is run, as a shell takes it. */
function toCommandLine({ options, config, given }: ManifestRequest): string {
  return quoteWords([
    ...['vipnat', 'manifest', options.kind],
    ...toArguments(config, given),
    ...toKeepalivedArguments(options),
    ...formatFlags({ keepalivedImage: options.keepalivedImage }),
    ...toPodArguments(options),
    ...toServicesArguments(options),
  ]);
}
