import { fileURLToPath } from 'node:url';
import { type Namespaces, NamespaceMachine } from '../machines/namespace-machine.ts';
import type { Sandbox } from '../machines/sandbox.ts';
import type { Family } from '../../../lib/net.ts';
import type { NodeHost } from './hosts.ts';
import { join } from 'node:path';
import { rmSync, existsSync, readFileSync } from 'node:fs';
import { locateDisk } from './disk.ts';
import { execa } from 'execa';
import { WaitedTooLong } from '../settings/error.ts';
import { setTimeout as sleep } from 'node:timers/promises';

/** Five at once on two cores take less than a second: one that takes this long hangs. */
const bootLimitMs = 180_000;

const fromHere = (name: string) => fileURLToPath(new URL(name, import.meta.url));

const init = fromHere('init');
const keeper = fromHere('services');
const systemd = fromHere('../bare-nodes/systemd');
const groups = fromHere('groups');

/** unshare, which waits for the node's first process: all namespaces are its own, but that it stays outside of the process namespace. */
const nodeNamespaces: Namespaces = (anchor) => [
  ...[`--target=${anchor}`, '--mount', '--net', '--uts', '--ipc', '--cgroup'],
  `--pid=/proc/${anchor}/ns/pid_for_children`,
];

/** A node that was booted before, by the process that holds its namespaces. */
export function findNode(sandbox: Sandbox, name: string, anchor: number): NamespaceMachine {
  return new NamespaceMachine(sandbox, name, anchor, nodeNamespaces);
}

/** Where a node lives. */
export interface NodePlace {
  readonly sandbox: Sandbox;
  /** Of the lab, as its name: see `nameGroups`. */
  readonly groups: string;
  readonly labFolder: string;
  readonly family: Family;
  /** The program; null where systemd runs all services. */
  readonly kubelet: string | null;
}

/** The name of a lab's control groups: no other lab on the machine has it. */
export function nameGroups(lab: string, { state }: Sandbox): string {
  return `${lab}-${state.pid}`;
}

/**
 * Boots a node on its disk. Once it has its address, which needs a cable, it starts containerd and kubelet: by itself,
 * or a bare one by systemd.
 * @throws WaitedTooLong with what it printed when it does not come up.
 */
export async function bootNode({ name, addresses }: NodeHost, place: NodePlace): Promise<NamespaceMachine> {
  const { sandbox, groups: labGroups, labFolder, family, kubelet } = place;
  await removeGroups(`${labGroups}/${name}`);
  const logs = join(labFolder, name);
  const booted = join(logs, 'booted');
  rmSync(booted, { force: true });
  const namespaces = ['--net', '--mount', '--uts', '--ipc', '--pid', '--cgroup'];
  const disk = locateDisk(labFolder, name);
  const address = addresses[family];
  const services = kubelet === null ? [systemd, disk, logs] : [keeper, name, address, logs, kubelet];
  const command = [
    ...[groups, 'join', `${labGroups}/${name}`],
    ...['unshare', ...namespaces, '--fork', '--kill-child=KILL'],
    ...[init, name, address, disk, logs, ...services],
  ];
  const log = join(logs, 'init.log');
  const script = 'log="$0"; setsid "$@" </dev/null >>"$log" 2>&1 &\necho $!';
  const [program = '', ...words] = sandbox.enter(['sh', '-c', script, log, ...command]);
  const { stdout } = await execa(program, words);
  const until = Date.now() + bootLimitMs;
  while (!existsSync(booted)) {
    if (sandbox.isGone()) throw new Error(`${name} is gone: its lab has ended`);
    if (Date.now() > until) {
      const end = readFileSync(log, 'utf8').slice(-2000);
      throw new WaitedTooLong(`${name} does not boot. The end of ${log}:\n${end}`);
    }
    await sleep(20);
  }
  return findNode(sandbox, name, Number(stdout));
}

/** Removes control groups whose processes are gone. */
export async function removeGroups(name: string): Promise<void> {
  await execa(groups, ['remove', name]);
}

/** Held for as long as somebody waits for the lab's end. */
const lockFile = 'end.lock';

/** Sees to it that a lab leaves no control group and no disk, however it ends. */
export async function removeAfterwards(
  sandbox: Sandbox,
  labGroups: string,
  labFolder: string,
): Promise<void> {
  const script = 'exec 9>"$0"; flock 9; setsid "$@" </dev/null >/dev/null 2>&1 &';
  const { pid, startedAt } = sandbox.state;
  const command = [groups, 'await', String(pid), startedAt, labGroups, labFolder];
  await execa('sh', ['-c', script, join(labFolder, lockFile), ...command]);
}

/** Waits until that is done. */
export async function waitForRemoval(labFolder: string): Promise<void> {
  await execa('flock', [join(labFolder, lockFile), 'true']);
}
