import { describe, expect, test } from '@jest/globals';
import { makeFolder } from '../../support/network/own-folder.ts';
import { runOnBareHost } from '../../support/host/bare-host.ts';
import { prompt } from '../../support/host/keepalived.ts';
import { vipnatCommand } from '../../support/host/vipnat.ts';

const folder = makeFolder('systemd');
const file = '/run/vipnat/keepalived/serving';
const vip = '10.77.0.50';

/** What these scripts need beside what every host has. */
const helpers = `
  mkdir /run/test
  is_held() { ip -o addr show dev eth0 | grep -q ' ${vip}/'; }
  start_keepalived() {
    vipnat keepalived --vip ${vip} --advert 300ms >/run/test/keepalived.conf 2>/dev/null
    ${prompt.join(' ')} keepalived --dont-fork --log-console --vrrp --use-file=/run/test/keepalived.conf --pid=/run/test/pid \\
      --vrrp_pid=/run/test/vrrp >/run/test/log 2>&1 &
    until_so is_held
  }
  tell() { echo "$1" >/run/test/told; mv /run/test/told ${file}; }
`;
const runOnHost = (script: string) => runOnBareHost(`${helpers}${script}`);

const doctor = `vipnat doctor --json --vip ${vip} --capture 0s`;
const readLevel = (code: string) =>
  `$(${doctor} 2>/dev/null | ${process.execPath} -p 'JSON.parse(fs.readFileSync(0)).checks.find(({ code }) => code === "${code}").level' || true)`;
const readRemedy = (code: string) =>
  `$(${doctor} 2>/dev/null | ${process.execPath} -p 'JSON.parse(fs.readFileSync(0)).checks.find(({ code }) => code === "${code}").remedy.join("\\n")' || true)`;

describe('a keepalived that is started before the agent', () => {
  test('drops the track file where its folder is missing; doctor says so, and its remedy mends it', async () => {
    const said = await runOnHost(`
        start_keepalived
        mkdir -p /run/vipnat/keepalived
        tell 1
        sleep 1
        is_held && say told held
        say level "${readLevel('track-file-dropped')}"
        eval "${readRemedy('track-file-dropped')}"
        until_so is_held
        for _ in $(seq 100); do level="${readLevel('track-file-dropped')}"; [ "$level" = ok ] && break; done
        say after "$level"
        tell 1
        until_so is_not is_held
        say then gone`);
    expect(Object.fromEntries(said)).toEqual({ told: 'held', level: 'warn', after: 'ok', then: 'gone' });
  });

  test('follows it where tmpfiles.d has made it, and systemd takes back what a killed agent said last', async () => {
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
    const expected = { made: '0', dropped: 'ok', agent: '1', stale: 'fail', killed: '1', taken: '0' };
    expect(Object.fromEntries(said)).toEqual({ ...expected, rules: '2', other: '1', ended: '0' });
  });

  test('has units that systemd finds nothing wrong with', async () => {
    await runOnHost(`
      vipnat manifest systemd --vip ${vip} --vip '[fd00::50]:6443' --ca-file '/etc/a b$HOME%h"' --directory /run/test 2>/dev/null >&2
      unit=/run/test/etc/systemd/system/vipnat.service
      sed -i 's!^ExecStart=/usr/bin/node !ExecStart=${process.execPath} !' $unit
      complaints=$(systemd-analyze verify --man=no $unit 2>&1)
      [ -z "$complaints" ] || { echo "$complaints" >&2; exit 1; }
      say fine yes`);
  });
});
