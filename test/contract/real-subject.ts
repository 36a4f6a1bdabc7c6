import { type KernelSubject, type ToolFault, garbage } from './subject.ts';
import { childCommand, createRealKernel } from './real-kernel.ts';
import { toolName, type FlowSelection } from '../../lib/kernel/port.ts';
import { forwardingSwitch } from '../../lib/kernel/forwarding.ts';
import { makeExtensionsWithout } from '../support/network/iptables-extensions.ts';
import type { Endpoint } from '../../lib/net.ts';
import { fileURLToPath } from 'node:url';
import { spawn, type ChildProcess, execFile } from 'node:child_process';
import { join } from 'node:path';
import { once } from 'node:events';
import { rm, mkdtemp, symlink, writeFile, readlink, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { tmpdir } from 'node:os';

/**
 * The real kernel, in a network and a mount namespace that live and die with one child process: nothing is left behind,
 * however the test ends. The child finds its tools in a folder of its own, where they can be broken.
 */
export async function createRealSubject(): Promise<KernelSubject> {
  const folder = await createToolFolder();
  // A /run of its own, too: everybody's iptables-legacy on this machine takes the lock in the common one.
  const start = 'mount -t tmpfs tmpfs /run && exec "$0" "$@"';
  const command = ['/bin/sh', '-c', start, ...childCommand];
  const child = spawn('unshare', ['--net', '--mount', '--', ...command], {
    stdio: ['pipe', 'pipe', 'inherit'],
    // unshare is looked up in this PATH too.
    env: { ...process.env, PATH: folder, NODE_OPTIONS: '' },
  });
  const kernel = createRealKernel(child);
  // The first answer says that the namespace is there.
  await kernel.ping();
  const inside = (...command: string[]) => runInside(child, command);
  await inside('ip', 'link', 'set', 'lo', 'up');
  const connected: ChildProcess[] = [];
  return {
    kernel,
    run: (family, dialect, input) =>
      inside('sh', '-c', `${toolName(family, dialect, 'restore')} --noflush -w 5 <<'END'\n${input}END\n`),
    runNft: (script) => inside('sh', '-c', `nft -f - <<'END'\n${script}\nEND\n`),
    mountLock: () =>
      inside(
        'sh',
        '-c',
        'mkdir /run/host && touch /run/host/lock /run/xtables.lock && mount --bind /run/host/lock /run/xtables.lock',
      ),
    addAddress: (address) => inside('ip', 'address', 'add', address, 'dev', 'lo', 'nodad'),
    removeAddress: (address) => inside('ip', 'address', 'delete', toPrefix(address), 'dev', 'lo'),
    connect: async (vip) => {
      connected.push(await connect(child, vip));
    },
    programNftProxy: (state) =>
      inside(
        'nft',
        '-f',
        fileURLToPath(new URL(`../support/fixtures/captures/nft-kube-proxy.${state}.txt`, import.meta.url)),
      ),
    trackFlow: (flow, number) => inside('conntrack', ...toTrackedFlow(flow, number)),
    disableForwarding: (family) => inside('sysctl', '-qw', `${forwardingSwitch(family)}=0`),
    enableForwarding: (family) => inside('sysctl', '-qw', `${forwardingSwitch(family)}=1`),
    breakTool: async (tool, fault) => {
      if (fault === 'hanging') await kernel.hurry();
      await breakTool(join(folder, tool), fault);
    },
    addStrangeRule: (family, table) =>
      inside(
        'nft',
        `add rule ${family === 'ipv6' ? 'ip6' : 'ip'} ${table} OUTPUT numgen random mod 2 0 counter`,
      ),
    loseMatch: async (family, dialect, table) => {
      const restore = `${toolName(family, dialect, 'restore')} --noflush -w 5`;
      await inside('sh', '-c', `printf '*${table}\\n-A OUTPUT -m u32 --u32 0=0\\nCOMMIT\\n' | ${restore}`);
      await loseMatch(folder, toolName(family, dialect, 'save'), 'u32');
    },
    countChildren: () => countChildren(child),
    dispose: async () => {
      for (const { pid } of connected) if (pid !== undefined) process.kill(pid, 'SIGKILL');
      child.stdin.end();
      if (child.exitCode === null) await once(child, 'exit');
      await rm(folder, { recursive: true });
    },
  };
}

/** Why there can be no namespaces here; null where they can. */
export async function whyNoNamespaces(): Promise<string | null> {
  return await promisify(execFile)('unshare', ['--net', '--mount', '--', 'true']).then(
    () => null,
    (error: unknown) => `no network namespaces here: ${String(error)}`,
  );
}

const tools = [
  ...(['ipv4', 'ipv6'] as const).flatMap((family) =>
    (['nft', 'legacy'] as const).flatMap((dialect) =>
      (['save', 'restore'] as const).map((suffix) => toolName(family, dialect, suffix)),
    ),
  ),
  ...[toolName('ipv4', 'nft'), toolName('ipv6', 'nft'), 'nft', 'conntrack', 'inotifywait', 'setpriv'],
  ...['unshare', 'mount', 'true'],
];

async function createToolFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `vipnat-${process.pid}-`));
  for (const tool of tools) {
    const { stdout } = await promisify(execFile)('which', [tool]);
    await symlink(stdout.trim(), join(folder, tool));
  }
  return folder;
}

async function breakTool(path: string, fault: ToolFault): Promise<void> {
  await rm(path);
  if (fault === 'missing') return;
  // A wrapper that waits for a child of its own, as wrappers do.
  const script = fault === 'hanging' ? '/bin/sleep 600; exit 1' : `printf '%s' '${garbage}'`;
  await writeFile(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

/** The tool finds all extensions of iptables but that for one match. */
async function loseMatch(folder: string, tool: string, match: string): Promise<void> {
  const path = await readlink(join(folder, tool));
  await rm(join(folder, tool));
  const script = `XTABLES_LIBDIR=${makeExtensionsWithout(match, folder)} exec ${path} "$@"`;
  await writeFile(join(folder, tool), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

/** A client's connection to the VIP, sent on to the backend with its own address kept. */
function toTrackedFlow({ vip, backend, isHalfOpen }: FlowSelection, number: number): string[] {
  const client = vip.family === 'ipv6' ? 'fd00::99' : '10.0.0.99';
  const port = String(20_000 + number);
  return [
    // As of an established one that just had a packet.
    ...['-I', '-p', 'tcp', '--timeout', '432000'],
    ...(isHalfOpen ? ['--state', 'SYN_SENT'] : ['--state', 'ESTABLISHED', '--status', 'SEEN_REPLY,ASSURED']),
    ...['--orig-src', client, '--orig-port-src', port],
    ...['--orig-dst', vip.address, '--orig-port-dst', String(vip.port)],
    ...['--reply-src', backend.address, '--reply-port-src', String(backend.port)],
    ...['--reply-dst', client, '--reply-port-dst', port],
  ];
}

/** Listens at the VIP, connects to it, and says so. */
const connectScript = `
  const net = require('node:net');
  const [, host, port] = process.argv;
  const ignore = (socket) => socket.on('error', () => undefined);
  net.createServer(ignore).listen({ host, port, exclusive: true }, () => {
    ignore(net.connect({ host, port })).on('connect', () => console.log('connected'));
  });
  setInterval(() => undefined, 1000);
`;

async function connect(child: ChildProcess, { address, port }: Endpoint): Promise<ChildProcess> {
  const command = [process.execPath, '-e', connectScript, address, String(port)];
  const connected = spawn('nsenter', ['--target', String(child.pid), '--net', '--', ...command], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  await once(connected.stdout, 'data');
  return connected;
}

async function runInside(child: ChildProcess, command: readonly string[]): Promise<void> {
  await promisify(execFile)('nsenter', ['--target', String(child.pid), '--net', '--mount', '--', ...command]);
}

async function countChildren(child: ChildProcess): Promise<number> {
  const pids = await readFile(`/proc/${child.pid ?? 0}/task/${child.pid ?? 0}/children`, 'utf8');
  return pids.split(' ').filter((pid) => pid !== '').length;
}

function toPrefix(address: string): string {
  return `${address}/${address.includes(':') ? 128 : 32}`;
}
