import { spawn } from 'node:child_process';
import { vipnatCommand } from './vipnat.ts';
import { WaitedTooLong } from '../jest/waiting.ts';

/** What a script on a host of its own has said, by name. */
type Said = ReadonlyMap<string, string>;

/**
 * A host as it is at boot, 10.77.0.11 on eth0, with the programs of this machine. Its /run is empty, /etc is its own, without
 * keepalived's configuration and without a cluster's files.
 */
const boot = () => `
  mount -t tmpfs tmpfs /run
  mkdir /run/own
  mount -t tmpfs tmpfs /run/own
  mkdir /run/own/upper /run/own/work
  mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/own/upper,workdir=/run/own/work /etc
  rm -rf /etc/keepalived /etc/kubernetes
  ip -batch - <<'END'
link set lo up
link add eth0 type veth peer name other
link set other up
link set eth0 up
addr add 10.77.0.11/24 dev eth0
END
  vipnat() { ${vipnatCommand([]).join(' ')} "$@"; }
  say() { echo "$1=$2" >&3; }
  # Until a command answers as it shall, or a minute has passed.
  until_so() { for _ in $(seq 600); do "$@" && return; sleep 0.1; done; echo "not so: $*" >&2; exit 1; }
  is_not() { ! "$@"; }
`;

/**
 * Runs a script of bash on such a host, where `vipnat` is a function and `say NAME TEXT` answers one line; the host ends
 * with it. Rejects with what it printed when it fails.
 */
export async function runOnBareHost(script: string): Promise<Said> {
  const child = spawn(
    'unshare',
    ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', 'bash', '-eu'],
    { stdio: ['pipe', 'ignore', 'pipe', 'pipe'], env: process.env },
  );
  let [said, errors] = ['', ''];
  child.stdio[3]?.on('data', (text: Buffer) => (said += text.toString()));
  child.stderr?.on('data', (text: Buffer) => (errors += text.toString()));
  child.stdin?.end(`${boot()}${script}`);
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
  if (status !== 0) {
    const what = `exit status ${status}: ${errors}\n${said}`;
    throw errors.includes('not so: ') ? new WaitedTooLong(what) : new Error(what);
  }
  const lines = said.split('\n').filter((line) => line !== '');
  return new Map(lines.map((line) => [line.replace(/=.*/, ''), line.replace(/^[^=]*=/, '')]));
}
