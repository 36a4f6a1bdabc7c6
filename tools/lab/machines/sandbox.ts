import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { execa } from 'execa';
import { setTimeout as sleep } from 'node:timers/promises';
import { readFileSync } from 'node:fs';

/**
 * The first process of the sandbox, which is bash because it also collects what its orphans leave. It ends, and all
 * with it, as soon as its standard input does, unless it was told before to stay.
 */
const initScript = `
mount -t tmpfs tmpfs /run
ip link set lo up
echo ready
read -r word || exit 0
exec </dev/null >/dev/null 2>&1
while :; do sleep 86400; done
`;

/** What a later process needs to find a sandbox again, and to be sure that it is the same one. */
export interface SandboxState {
  readonly pid: number;
  /** In clock ticks since boot, as /proc/PID/stat has it: a number that was given to another process differs here. */
  readonly startedAt: string;
}

/**
 * Everything that a lab runs, makes and mounts, in process, mount, network and IPC namespaces of its own: when its
 * first process ends, the kernel ends all others and takes back what they had. Nothing is left by construction.
 */
export class Sandbox {
  readonly state: SandboxState;
  readonly #child: ChildProcess | null;

  private constructor(state: SandboxState, child: ChildProcess | null) {
    this.state = state;
    this.#child = child;
  }

  /** Makes one that goes away with the calling process, however that ends, until `keep` is called. */
  static async create(): Promise<Sandbox> {
    const namespaces = ['--pid', '--mount-proc', '--mount', '--net', '--ipc'];
    const child = spawn('unshare', ['--fork', '--kill-child', ...namespaces, 'bash', '-ec', initScript], {
      // A session of its own: Ctrl-C goes to the maker, which has to choose the order in which things end.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let complaint = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (complaint += text));
    const isReady = await Promise.race([
      once(child.stdout, 'data').then(() => true),
      once(child, 'close').then(() => false),
    ]);
    const { pid } = child;
    if (!isReady || pid === undefined) throw new Error(`no namespaces may be made here: ${complaint.trim()}`);
    return new Sandbox({ pid, startedAt: readStartTime(pid) ?? '' }, child);
  }

  /** One that another process made; null when it is gone. */
  static find(state: SandboxState): Sandbox | null {
    return isSame(state) ? new Sandbox(state, null) : null;
  }

  /** The command line that runs a command in here, on the network of the sandbox itself: the lab's switch. */
  enter(command: readonly string[]): string[] {
    const { pid } = this.state;
    const namespaces = [`--target=${pid}`, '--mount', '--net', '--ipc'];
    return ['nsenter', ...namespaces, `--pid=/proc/${pid}/ns/pid_for_children`, ...command];
  }

  /** Runs a shell script on the lab's switch; rejects with what it printed when it fails. */
  async shell(script: string): Promise<string> {
    const [program = '', ...words] = this.enter(['sh', '-e', '-s']);
    return (await execa(program, words, { input: script })).stdout;
  }

  /** Lets it outlive its maker. */
  keep(): void {
    this.#child?.stdin?.end('stay\n');
    for (const stream of [this.#child?.stdout, this.#child?.stderr]) stream?.destroy();
    this.#child?.unref();
  }

  /** Whether everything in here has ended. */
  isGone(): boolean {
    return !isSame(this.state);
  }

  /** Ends every process in here and waits until they are gone. Not an error when it is gone already. */
  async remove(): Promise<void> {
    // Its first process, whose parent ends after it, and it after all others.
    if (isSame(this.state)) for (const child of listChildren(this.state.pid)) process.kill(child, 'SIGKILL');
    while (!this.isGone()) await sleep(10);
  }
}

function isSame({ pid, startedAt }: SandboxState): boolean {
  return startedAt !== '' && readStartTime(pid) === startedAt;
}

function listChildren(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return text
    .split(' ')
    .filter((word) => word !== '')
    .map(Number);
}

/** Null when there is no such process any more, or only its exit status. */
function readStartTime(pid: number): string | null {
  try {
    // The program's name stands in parentheses and may hold spaces.
    const [state, ...fields] = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    return state === 'Z' ? null : (fields[18] ?? null);
  } catch {
    return null;
  }
}
