import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { vips } from '../../support/network/layout.ts';
import { SickHost, type Told } from './sick-host.ts';
import { insertSnippets } from '../../support/doctor/snippets.ts';
import { waitUntil } from '../../support/host/vipnat.ts';

const vip = vips.ipv4;
const conf = '/etc/keepalived/keepalived.conf';

/** As people write it: an id and a password of their own, and another address that has nothing to do with the VIP. */
const render = (priority: number) => `global_defs {
  router_id hand
}
vrrp_instance storage {
  state BACKUP
  interface eth0
  virtual_router_id 61
  priority ${priority}
  virtual_ipaddress {
    10.77.0.51/32
  }
}
vrrp_instance VI_1 {
  state BACKUP
  interface eth0
  virtual_router_id 60
  priority ${priority}
  advert_int 1
  authentication {
    auth_type PASS
    auth_pass secret
  }
  virtual_ipaddress {
    ${vip}/32
  }
}
`;

let host: SickHost;
let endOther = () => {};

beforeAll(async () => {
  host = await SickHost.create();
  await host.shell(
    `systemctl stop keepalived; cat >${conf} <<'END'\n${render(150)}END\nsystemctl start keepalived`,
  );
  endOther = host.startKeepalived('m2', render(100));
  await host.waitForVip();
});

afterAll(async () => {
  endOther();
  await (host as SickHost | undefined)?.close();
});

const showAddresses = (machine: string): Promise<string> =>
  host.cluster.shell(machine, 'ip -o addr show dev eth0');

async function listHolders(): Promise<string[]> {
  const all = await Promise.all(
    ['m1', 'm2'].map(async (name) => {
      return (await showAddresses(name)).includes(` ${vip}/`) ? [name] : [];
    }),
  );
  return all.flat();
}

async function waitForOneHolder(): Promise<void> {
  await waitUntil(async () => (await listHolders()).length === 1, 'the VIP has not settled');
}

/** Never two, for longer than a backup waits for adverts: three, and a part of one. And one in the end. */
async function expectOneHolder(): Promise<void> {
  for (let look = 0; look < 25; look += 1) {
    expect((await listHolders()).length).toBeLessThan(2);
    await sleep(200);
  }
  await waitForOneHolder();
}

async function findRemedies(): Promise<readonly Told[]> {
  const told = await host.examine(['--capture', '60s']);
  const codes = 'keepalived-untracked keepalived-lacks-vip vrid-clash vip-nowhere vip-held-twice'.split(' ');
  return told.filter(({ code, level }) => codes.includes(code) && (level === 'warn' || level === 'fail'));
}

const runAll = async (found: readonly Told[]) => {
  for (const { remedy = [] } of found) await host.shell(remedy.join('\n'));
};

test('a remedy for a keepalived.conf that somebody wrote never gives the VIP to two masters', async () => {
  await waitForOneHolder();
  const found = await findRemedies();
  expect(found.map(({ code }) => code)).toEqual(['keepalived-untracked']);
  const before = await host.shell(`cat ${conf}`);
  await runAll(found);
  await expectOneHolder();
  expect(await host.shell(`cat ${conf}`)).toBe(before);
  // And by somebody who understood it, on this master alone.
  await insertSnippets(host, conf, found[0]?.remedy ?? []);
  await runAll(found);
  await expectOneHolder();
  expect(await findRemedies()).toEqual([]);
  // keepalived has read it: the agent's word moves the VIP.
  await host.shell('echo 1 >/run/vipnat/keepalived/serving');
  await waitUntil(async () => (await listHolders()).join() === 'm2', 'keepalived does not follow the file');
});

test('somebody else’s group with the same id is told of without a command that gives the VIP to two masters', async () => {
  await host.shell('echo 0 >/run/vipnat/keepalived/serving');
  // keepalived puts its own advert off by an interval whenever it hears one of this id with other addresses: with equal
  // intervals one of the two groups may be silent for long.
  const end = host.startKeepalived(
    'client',
    render(200)
      .replace('router_id hand', 'router_id hand\n  vrrp_version 3')
      .replace('advert_int 1', 'advert_int 0.3')
      .replace(/ {2}authentication \{[^}]*\}\n/, '')
      .replace(vip, '10.77.0.99')
      .replaceAll('storage', 'other')
      .replace('61', '62')
      .replace('10.77.0.51', '10.77.0.98'),
  );
  // It advertises from when it is a master.
  await waitUntil(async () => (await showAddresses('client')).includes(' 10.77.0.99/'), 'there is no master');
  const found: Told[] = [];
  await waitUntil(async () => {
    found.splice(0, found.length, ...(await findRemedies()).filter(({ code }) => code === 'vrid-clash'));
    return found.length > 0;
  }, 'the clash is not told of');
  end();
  await runAll(found);
  await waitForOneHolder();
  await expectOneHolder();
});
