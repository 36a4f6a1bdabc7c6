import { describe, expect, test } from '@jest/globals';
import { runOnBareHost } from '../../support/host/bare-host.ts';
import { type Diagnosis, meet, vip, writeMasterFiles } from './newcomer.ts';
import { prompt } from '../../support/host/keepalived.ts';
import { vipnatCommand } from '../../support/host/vipnat.ts';

const startKeepalived = `
  mkdir -p /run/vipnat/keepalived /etc/keepalived
  ${prompt.join(' ')} keepalived --dont-fork --log-console --vrrp --pid=/run/k.pid --vrrp_pid=/run/v.pid >/run/keepalived.log 2>&1 &
  is_held() { ip -o addr show dev eth0 | grep -q ' ${vip}/'; }
  until_so is_held
  # A capture ends with the adverts that it needs, not with its time.
  mkdir /run/capture
  printf '#!/bin/sh\\nexec %s "$@" -c 3\\n' "$(command -v tcpdump)" >/run/capture/tcpdump
  chmod +x /run/capture/tcpdump
  export PATH=/run/capture:$PATH
  capture=60s`;
test('a host with nothing has no fault, and is led to keepalived first; its first step works as it is printed', async () => {
  const { exitCode, found, codes, titles } = await meet('');
  expect({ exitCode, codes, stage: found.stage }).toEqual({
    exitCode: 0,
    codes: [],
    stage: 'before-installation',
  });
  expect(found).toMatchObject({ failures: 0, warnings: 0 });
  expect(found.ok + found.skipped).toBe(found.checks.length);
  expect(found.pending).toBeGreaterThan(10);
  const commands = found.next[0]?.commands.filter((line) => !/^#|systemctl|apt-get/.test(line)) ?? [];
  expect(commands).not.toEqual([]);
  const after = await meet(`${commands.join('\n')}\n${startKeepalived}`);
  expect(after.codes).toEqual([]);
  expect(after.titles).toEqual(titles.slice(1));
});

describe('the API that is served today stays served:', () => {
  const commandsOf = ({ checks, next }: Diagnosis) =>
    [...checks.flatMap(({ remedy = [] }) => remedy), ...next.flatMap(({ commands }) => commands)].filter(
      (line) => !line.startsWith('#'),
    );

  test('by keepalived and HAProxy on the VIP’s port', async () => {
    const { exitCode, found, codes } = await meet(`${writeMasterFiles}
        vipnat keepalived --vip ${vip} --output /run/printed.conf 2>/dev/null
        mkdir /etc/keepalived
        (echo 'vrrp_script check { script "/bin/true" }'; sed '/^ *track_file/,/}/d' /run/printed.conf) >/etc/keepalived/keepalived.conf
        ${startKeepalived}
        cat >/run/haproxy.cfg <<'END'
defaults
  mode tcp
  timeout connect 3s
  timeout client 9s
  timeout server 9s
frontend api
  bind ${vip}:6443
  default_backend apiservers
backend apiservers
  server m1 10.77.0.11:6444
END
        haproxy -f /run/haproxy.cfg >/run/haproxy.log 2>&1 &
        is_served() { ss -Hltn 'sport = :6443' | grep -q .; }
        until_so is_served`);
    expect(exitCode).toBe(2);
    expect(codes).toContain('foreign-listener warn');
    expect(found.next.at(-2)?.commands.join()).toContain('docs/migrate.md#from-keepalived--haproxy');
    expect(commandsOf(found).filter((line) => /haproxy|stop|disable|kill/.test(line))).toEqual([]);
  });

  test('by kube-vip', async () => {
    const { found, codes } = await meet(`${writeMasterFiles}
        ip addr add ${vip}/32 dev eth0
        ${process.execPath} -e 'process.title = "kube-vip"; setTimeout(() => 0, 60_000)' &
        is_here() { grep -qs '^kube-vip$' /proc/[0-9]*/comm; }
        until_so is_here`);
    expect(codes).toContain('kube-vip-running warn');
    expect(codes.filter((one) => one.endsWith('fail'))).toEqual([]);
    expect(found.next.at(-2)?.commands.join()).toContain('docs/migrate.md#from-kube-vip');
    expect(commandsOf(found).filter((line) => /kube-vip|stop|disable|kill|addr del/.test(line))).toEqual([]);
  });
});

describe('a virtual IP', () => {
  test('that another host has is said to be taken, and nothing is built on it', async () => {
    const { exitCode, codes, titles } = await meet(`
        unshare --net sleep 100 &
        neighbour=$!
        is_apart() { [ "$(readlink /proc/$neighbour/ns/net)" != "$(readlink /proc/self/ns/net)" ]; }
        until_so is_apart
        ip link set other netns $neighbour
        nsenter --target $neighbour --net sh -c 'ip link set other up; ip addr add ${vip}/24 dev other'`);
    expect({ exitCode, codes, titles }).toEqual({
      exitCode: 2,
      codes: ['vip-held-without-vrrp warn'],
      titles: ['Fix the findings above'],
    });
  });

  test('of another network is said to be stray', async () => {
    const { exitCode, codes } = await meet('', { address: '10.99.0.50' });
    expect({ exitCode, codes }).toEqual({ exitCode: 2, codes: ['vip-off-network warn'] });
  });

  test('that is not given is asked for, with what to choose', async () => {
    const said = await runOnBareHost('say error "$(vipnat doctor 2>&1 || true)"');
    expect(said.get('error')).toMatch(
      /no virtual IP given.*For a new cluster, choose a free address.*--vip 10\.0\.0\.50/,
    );
  });
});

test('a host without tools is told which packages have them', async () => {
  const { found, codes } = await meet(
    `
      mkdir /run/bin
      for tool in sh apt-get; do ln -s "$(command -v $tool)" /run/bin/; done
      without_tools() { PATH=/run/bin "$@"; }`,
    { runner: 'without_tools' },
  );
  expect(codes).toEqual(['no-firewall-tool fail', 'host-unreadable fail']);
  const remedies = found.checks.flatMap(({ remedy = [] }) => remedy);
  expect(remedies).toEqual(['apt-get install iptables', 'apt-get install iptables']);
});

test('who is not root is told to be, and of nothing that was not seen that it is well', async () => {
  const { found, codes } = await meet(
    `mkdir -p -m 700 /etc/kubernetes /etc/keepalived
       echo x >/etc/keepalived/keepalived.conf
       vipnat() {
         setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all ${vipnatCommand([]).join(' ')} "$@"
       }`,
  );
  expect(found.stage).toBe('unknown');
  expect(codes.slice(0, 2)).toEqual(['not-permitted fail', 'host-unreadable fail']);
  expect(found.checks.find(({ code }) => code === 'kubeconfig-at-vip')?.level).toBe('skipped');
  expect(found.checks.find(({ code }) => code === 'keepalived-lacks-vip')?.level).toBe('skipped');
});
