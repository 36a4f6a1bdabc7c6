import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { limitMs, vipnatCommand } from '../../support/host/vipnat.ts';

/** What a script on a host of its own has said, by name. */
type Said = ReadonlyMap<string, string>;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'vipnat-systemd-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const file = '/run/vipnat/keepalived/serving';
const vip = '10.77.0.50';

/** A host as it is at boot: its /run is empty, and nothing else of it can be written by accident. */
const boot = () => `
  mount -t tmpfs tmpfs /run
  ip -batch - <<'END'
link set lo up
link add eth0 type veth peer name other
link set other up
link set eth0 up
addr add 10.77.0.11/24 dev eth0
END
  mkdir /run/test
  vipnat() { ${vipnatCommand([]).join(' ')} "$@"; }
  say() { echo "$1=$2" >&3; }
  is_held() { ip -o addr show dev eth0 | grep -q ' ${vip}/'; }
  # Until a command answers as it shall, or 15 seconds have passed.
  until_so() { for _ in $(seq 150); do "$@" && return; sleep 0.1; done; echo "not so: $*" >&2; exit 1; }
  is_not() { ! "$@"; }
  start_keepalived() {
    vipnat keepalived --vip ${vip} --advert 300ms >/run/test/keepalived.conf 2>/dev/null
    keepalived --dont-fork --log-console --vrrp --use-file=/run/test/keepalived.conf --pid=/run/test/pid \\
      --vrrp_pid=/run/test/vrrp >/run/test/log 2>&1 &
    until_so is_held
  }
  tell() { echo "$1" >/run/test/told; mv /run/test/told ${file}; }
`;

/** Runs a script on such a host; rejects with what it printed when it fails. */
async function runOnHost(script: string): Promise<Said> {
  const child = spawn(
    'unshare',
    ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', 'bash', '-eu'],
    {
      stdio: ['pipe', 'ignore', 'pipe', 'pipe'],
    },
  );
  let [said, errors] = ['', ''];
  child.stdio[3]?.on('data', (text: Buffer) => (said += text.toString()));
  child.stderr?.on('data', (text: Buffer) => (errors += text.toString()));
  child.stdin?.end(`${boot()}${script}`);
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
  if (status !== 0) throw new Error(`exit status ${status}: ${errors}\n${said}`);
  return new Map(
    said
      .trim()
      .split('\n')
      .map((line) => line.split('=', 2) as [string, string]),
  );
}

const doctor = `vipnat doctor --json --vip ${vip} --capture 0s`;
const readLevel = (code: string) =>
  `$(${doctor} 2>/dev/null | ${process.execPath} -p 'JSON.parse(fs.readFileSync(0)).checks.find(({ code }) => code === "${code}").level' || true)`;
const readRemedy = (code: string) =>
  `$(${doctor} 2>/dev/null | ${process.execPath} -p 'JSON.parse(fs.readFileSync(0)).checks.find(({ code }) => code === "${code}").remedy.join("\\n")' || true)`;

describe('a keepalived that is started before the agent', () => {
  test(
    'drops the track file where its folder is missing; doctor says so, and its remedy mends it',
    async () => {
      const said = await runOnHost(`
        start_keepalived
        mkdir -p /run/vipnat/keepalived
        tell 1
        sleep 1
        is_held && say told held
        say level "${readLevel('track-file-dropped')}"
        eval "${readRemedy('track-file-dropped')}"
        until_so is_held
        for _ in $(seq 20); do level="${readLevel('track-file-dropped')}"; [ "$level" = ok ] && break; done
        say after "$level"
        tell 1
        until_so is_not is_held
        say then gone`);
      expect(Object.fromEntries(said)).toEqual({ told: 'held', level: 'warn', after: 'ok', then: 'gone' });
    },
    limitMs,
  );

  test(
    'follows it where tmpfiles.d has made it, and systemd takes back what a killed agent said last',
    async () => {
      const said = await runOnHost(`
        vipnat manifest systemd --vip ${vip} --directory ${folder} >/dev/null 2>&1
        systemd-tmpfiles --create ${folder}/etc/tmpfiles.d/vipnat.conf --prefix=/run
        say made "$(cat ${file})"
        start_keepalived
        say dropped "${readLevel('track-file-dropped')}"
        ip route add blackhole 10.77.1.0/24
        # Rights and a root folder as the unit gives them.
        start_agent() {
          setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+net_admin,+net_raw,+sys_nice \\
            ${vipnatCommand([]).join(' ')} run --vip ${vip} --endpoints 10.77.1.12:6443,10.77.0.13:6443 \\
            --state-dir /run/test/state --listen off 2>/run/test/agent & agent=$!
        }
        mount -o remount,bind,ro /
        start_agent
        until_so is_not is_held
        say agent "$(cat ${file})"
        kill -9 $agent
        wait $agent || true
        say stale "${readLevel('track-file-stale')}"
        say killed "$(cat ${file})"
        stop_post=$(sed -n 's/^ExecStopPost=-//p' ${folder}/etc/systemd/system/vipnat.service | sed 's/[$][$]/$/g')
        eval "$stop_post"
        until_so is_held
        say taken "$(cat ${file})"
        say rules "$(iptables-save -t nat | grep -c -- '-j VIPNAT$')"
        start_agent
        until_so is_not is_held
        eval "$stop_post"
        say other "$(cat ${file})"
        kill $agent
        wait $agent
        say ended "$(cat ${file})"`);
      expect(Object.fromEntries(said)).toEqual({
        made: '0',
        dropped: 'ok',
        agent: '1',
        stale: 'fail',
        killed: '1',
        taken: '0',
        rules: '2',
        other: '1',
        ended: '0',
      });
    },
    limitMs,
  );

  test(
    'has units that systemd finds nothing wrong with',
    async () => {
      await runOnHost(`
      vipnat manifest systemd --vip ${vip} --vip '[fd00::50]:6443' --ca-file '/etc/a b$HOME%h"' --directory /run/test 2>/dev/null >&2
      unit=/run/test/etc/systemd/system/vipnat.service
      sed -i 's!^ExecStart=/usr/bin/node !ExecStart=${process.execPath} !' $unit
      complaints=$(systemd-analyze verify --man=no $unit 2>&1)
      [ -z "$complaints" ] || { echo "$complaints" >&2; exit 1; }
      say fine yes`);
    },
    limitMs,
  );
});
