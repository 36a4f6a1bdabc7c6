import { expect, test } from '@jest/globals';
import { meet, vip } from './newcomer.ts';
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
  expect([exitCode, codes, found.stage]).toEqual([0, [], 'before-installation']);
  expect(found).toMatchObject({ failures: 0, warnings: 0 });
  expect(found.ok + found.skipped).toBe(found.checks.length);
  expect(found.pending).toBeGreaterThan(10);
  const commands = found.next[0]?.commands.filter((line) => !/^#|systemctl|apt-get/.test(line)) ?? [];
  expect(commands).not.toEqual([]);
  const after = await meet(`${commands.join('\n')}\n${startKeepalived}`);
  expect(after.codes).toEqual([]);
  expect(after.titles).toEqual(titles.slice(1));
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
