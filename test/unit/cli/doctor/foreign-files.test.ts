import {
  conf,
  tell,
  makeProcess,
  withoutVip,
  advert,
  keepalived,
  keepalivedText,
} from '../../../support/doctor/well-host.ts';
import type { HostFacts } from '../../../../cli/doctor/facts.ts';
import { describe, test, expect } from '@jest/globals';

/** As people write it, with more in it than vipnat knows of. */
const handWritten = `global_defs {
  router_id lb1
}
vrrp_script chk_haproxy {
  script "/usr/bin/killall -0 haproxy"
}
vrrp_instance storage {
  virtual_router_id 7
  virtual_ipaddress { 10.77.0.9 }
}
vrrp_instance VI_1 {
  state MASTER
  interface eth0
  virtual_router_id 60
  priority 101
  authentication {
    auth_type PASS
    auth_pass 42
  }
  virtual_ipaddress {
    10.77.0.50/24 dev eth0
  }
}
virtual_server 10.77.0.9 80 {
  delay_loop 6
}
`;

const withFile = (text: string | null, path = conf): Partial<HostFacts> => ({
  keepalived: { value: { path, text, files: [path] } },
});
const remediesOf = async (changes: Partial<HostFacts>) =>
  (await tell(changes)).flatMap((one) => ('remedy' in one ? one.remedy : []));
const commandsOf = async (changes: Partial<HostFacts>) =>
  (await remediesOf(changes)).filter((line) => !line.startsWith('#'));
const noKeepalived = {
  value: [makeProcess('kube-apiserver', { arguments: ['x', '--shutdown-delay-duration=5s'] })],
};

describe('a keepalived.conf that somebody wrote', () => {
  test.each<[string, Partial<HostFacts>]>([
    ['lacks the track file', withFile(handWritten)],
    ['lacks the VIP', withFile(handWritten.replace('10.77.0.50/24', '10.77.0.51/24'))],
    [
      'has an id that clashes',
      {
        ...withFile(`${handWritten}# /run/vipnat/keepalived/serving`),
        adverts: { value: [{ ...advert, source: '10.77.0.99', vrid: 60, addresses: ['10.77.0.7'] }] },
      },
    ],
  ])('that %s is not written by a remedy', async (_, changes) => {
    const commands = await commandsOf(changes);
    expect(await remediesOf(changes)).not.toEqual([]);
    expect(commands.filter((line) => /[^2]>|\bsed\b|\bmv\b|systemctl (?:re)?start/.test(line))).toEqual([]);
  });

  test('gets the track file by a snippet for the instance that has the VIP, a test and a reload', async () => {
    const remedy = await remediesOf(withFile(handWritten));
    expect(remedy).toContain('# in vrrp_instance VI_1, or in its track_file if it has one:');
    expect(remedy.join('\n')).not.toContain('storage');
    expect(remedy.slice(-2)).toEqual([
      'mkdir -p /run/vipnat/keepalived',
      `keepalived --config-test --use-file=${conf} && kill -HUP 7`,
    ]);
  });

  test('is named with the files that it includes', async () => {
    const files = [conf, '/etc/keepalived/conf.d/vip.conf'];
    const remedy = await remediesOf({ keepalived: { value: { path: conf, text: handWritten, files } } });
    expect(remedy[0]).toBe(
      `# in ${conf} or a file that it includes (/etc/keepalived/conf.d/vip.conf), before the first vrrp_instance:`,
    );
  });

  test('is read anew by the unit that keepalived belongs to', async () => {
    const served = { ...keepalived, group: '/system.slice/keepalived.service' };
    const remedy = await remediesOf({
      ...withFile(handWritten),
      processes: { value: [served, ...noKeepalived.value] },
    });
    expect(remedy.at(-1)).toMatch(/ && systemctl reload keepalived\.service$/);
  });

  test('whose path its keepalived names itself is not a command of whoever pastes the remedy', async () => {
    const remedy = await remediesOf(withFile(keepalivedText.replace('serving"', 'other"'), '/tmp/$(reboot)'));
    expect(remedy.at(-1)).toBe("keepalived --config-test '--use-file=/tmp/$(reboot)' && kill -HUP 7");
  });

  test('is told how the masters of another instance reach each other', async () => {
    const text = handWritten
      .replace('10.77.0.50/24', '10.77.0.51/24')
      .replace(
        'priority 101',
        'advert_int 0.3\n unicast_src_ip 10.77.0.11\n unicast_peer {\n 10.77.0.12\n }',
      );
    expect(await commandsOf(withFile(text))).toContain(
      'vipnat keepalived --vip=10.77.0.50:6443 --peers=10.77.0.11,10.77.0.12 --advert=300ms',
    );
  });
});

describe('where no keepalived.conf is', () => {
  const missing = { ...withFile(null), processes: noKeepalived };
  const started = 'systemctl enable --now keepalived';

  test('one is written whole or not at all when nobody has the VIP', async () => {
    const commands = await commandsOf({ ...(await withoutVip()), ...missing });
    expect(commands).toEqual([
      ...(await commandsOf({ ...(await withoutVip()) })),
      'mkdir -p /etc/keepalived /run/vipnat/keepalived',
      `vipnat keepalived --vip=10.77.0.50:6443 > ${conf}.new && mv ${conf}.new ${conf}`,
      started,
    ]);
  });

  test('it is copied from the master that advertises the VIP, and nothing is started before', async () => {
    const held = { ...(await withoutVip()), ...missing, adverts: { value: [advert] } };
    expect(await commandsOf(held)).toEqual([]);
    expect((await remediesOf(held)).join('\n')).toContain('from another master');
  });

  test('nothing is started beside a host that has the VIP without VRRP', async () => {
    const holder = { mac: '02:42:0a:4d:00:0c', addresses: [] };
    const held = { ...missing, linkHolders: { value: new Map([['10.77.0.50', holder]]) } };
    expect(await commandsOf({ ...(await withoutVip()), ...held })).toEqual([]);
  });
});

test('keepalived is not started by the example of its package, which holds other addresses', async () => {
  const example =
    'vrrp_instance VI_1 {\n virtual_router_id 51\n virtual_ipaddress {\n 192.168.200.16\n }\n}\n';
  const facts = { ...(await withoutVip()), ...withFile(example), processes: noKeepalived };
  expect(await commandsOf(facts)).not.toContain('systemctl enable --now keepalived');
  expect((await remediesOf(facts)).join('\n')).toContain(`and run vipnat doctor again: mv ${conf}`);
});
