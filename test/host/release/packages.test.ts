import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { findArtifact, makeArtifacts, releaseLimitMs } from '../../support/release/artifacts.ts';
import { bootLimitMs, DebianMachine } from './debian-machine.ts';
import { inSync, testOwnUnit } from './own-unit.ts';

// Packages are unpacked, and an agent waits for a virtual IP, as long as that takes.
jest.setTimeout(300_000);

/** What an agent says where its unit keeps it or its tools from something. That a tool is slow is none of it. */
const refusal = /\[(?:TOOL_FAILED|TOOL_NOT_PERMITTED|NETLINK_FAILED|SYSCTL_NOT_WRITTEN)\]/;

/** What people have who read manuals and complete words, and what reads the .rpm. */
const others = ['bash-completion', 'fish', 'iproute2', 'man-db', 'mandoc', 'procps', 'rpm', 'zsh'];

let machine: DebianMachine;
beforeAll(async () => {
  const folder = await makeArtifacts();
  machine = await DebianMachine.boot(others);
  machine.put(findArtifact(folder, /_amd64\.deb$/));
  machine.put(findArtifact(folder, /\.x86_64\.rpm$/));
  await machine.print(`
    ip link add eth0 type veth peer name wire
    ip addr add 10.0.0.11/24 dev eth0 && ip link set eth0 up && ip link set wire up
    mv vipnat_*.deb vipnat.deb && mv vipnat-*.rpm vipnat.rpm
    dpkg-deb -R vipnat.deb older && sed -i 's/^Version: .*/Version: 0.0.9-1/' older/DEBIAN/control
    sed -i '1s/^/# Another text./' older/usr/share/vipnat/vipnat.yaml
    dpkg-deb -Znone -b older older.deb && rm -r older`);
}, releaseLimitMs + bootLimitMs);
afterAll(async () => {
  await machine.end();
});

/** Installs a file with what it depends on, as a person does; answers what apt said. */
async function install(file: string): Promise<string> {
  await machine.runOnline(
    `apt-get update; apt-get install --yes --download-only --allow-downgrades ./${file}`,
  );
  return await machine.print(`apt-get install --yes --reinstall --allow-downgrades ./${file} 2>&1`);
}

const showPid = (unit: string) => machine.print(`systemctl show --property MainPID --value ${unit}`);
const countRules = async () => (await machine.run('nft list ruleset | grep -c VIPNAT')).stdout;
const listFiles = () =>
  machine.print(`find / -xdev -path /proc -prune -o -path /sys -prune -o -print |
  grep -Ev '^/(var/(log|cache|lib/(dpkg|apt|rpm|systemd))|tmp|root)(/|$)' | sort`);
const showAddresses = () => machine.print('ip -brief -4 address show dev eth0');

/** A watcher beside what a test does: it says `gone` when there is a moment without rules. */
const watchRules =
  'rm -f gone; (while [ ! -e stop ]; do nft list ruleset | grep -q VIPNAT || echo gone >>gone; done) & watcher=$!';
const endWatch = 'touch stop; wait $watcher; rm stop; cat gone 2>/dev/null || true';

describe('the .deb on a fresh Debian', () => {
  test('brings what it needs, and enables and starts nothing, where a pod of keepalived has its file', async () => {
    // kubeadm's guide to high availability puts the file of the static pod here.
    await machine.print('mkdir /etc/keepalived && echo "# a pod has it" >/etc/keepalived/keepalived.conf');
    const listUnits = () =>
      machine.print(
        'systemctl list-unit-files --state enabled --no-legend; systemctl list-units --no-legend --plain --type service --state active | cut -d" " -f1',
      );
    const before = await listUnits();
    await install('vipnat.deb');
    expect(await listUnits()).toBe(before);
    expect(await machine.print('vipnat --version')).toMatch(/^\d+\.\d+\.\d+(-rc\.\d+)?$/);
    expect(await machine.print('command -v nft inotifywait')).toBe('/usr/sbin/nft\n/usr/bin/inotifywait');
    expect((await machine.run('command -v keepalived')).stdout).toBe('');
    expect(await machine.print('grep --text --only-matching data.tar.[a-z]* vipnat.deb')).toBe('data.tar.xz');
    const withOptions = await machine.run('NODE_OPTIONS="--require /absent.js" vipnat --version');
    expect(withOptions).toMatchObject({ exitCode: 0, stderr: '' });
    await machine.print('rm -r /etc/keepalived');
    await machine.runOnline('apt-get install --yes --download-only keepalived');
    await machine.print('apt-get install --yes keepalived && systemctl disable --now keepalived');
    expect(await machine.print('cat /run/vipnat/keepalived/serving')).toBe('0');
  });

  test('has a manual that mandoc finds nothing in, and units that systemd finds nothing in', async () => {
    expect(await machine.print('man --where vipnat')).toBe('/usr/share/man/man1/vipnat.1.gz');
    expect((await machine.run('mandoc -T lint /usr/share/man/man1/vipnat.1.gz')).stdout).toBe('');
    const verified = await machine.run('systemd-analyze verify vipnat.service keepalived.service');
    expect(verified).toMatchObject({ exitCode: 0, stdout: '', stderr: '' });
  });

  test('completes in each shell, unasked', async () => {
    const bash =
      '. /usr/share/bash-completion/bash_completion; _completion_loader vipnat; complete -p vipnat';
    expect(await machine.print(`bash -c '${bash}'`)).toContain('_vipnat vipnat');
    expect(await machine.print("zsh -c 'autoload -U compinit; compinit -D; echo $_comps[vipnat]'")).toBe(
      '_vipnat',
    );
    expect(await machine.print('fish -c \'complete --do-complete "vipnat sta"\'')).toContain('status');
  });

  test('leaves nothing behind when it is purged, rules included', async () => {
    await machine.print('apt-get purge --yes vipnat');
    const before = await listFiles();
    expect(before).not.toContain('vipnat');
    await machine.print('apt-get install --yes ./older.deb');
    await machine.print('vipnat run --once --vip 10.0.0.50 --endpoints 10.0.0.11:6443');
    expect(await countRules()).not.toBe('0');
    await machine.print('apt-get purge --yes vipnat');
    expect(await countRules()).toBe('0');
    expect(await listFiles()).toBe(before);
  });
});

describe('the service of the .deb, beside keepalived,', () => {
  test('takes the virtual IP with keepalived, whichever starts first', async () => {
    await machine.print('apt-get install --yes ./older.deb');
    await machine.print(`
      printf 'vip: 10.0.0.50\\nendpoints: 10.0.0.11:6443\\n' >>/etc/vipnat/vipnat.yaml
      vipnat keepalived --vip 10.0.0.50 --peers 10.0.0.11,10.0.0.12 --output /etc/keepalived/keepalived.conf
      rm -r /run/vipnat
      systemctl start keepalived && cat /run/vipnat/keepalived/serving
      systemctl enable --now vipnat`);
    await machine.print('until vipnat status | grep -q "MASTER for"; do sleep 0.2; done');
    expect(await showAddresses()).toContain('10.0.0.50/32');
    await machine.print(inSync);
    // Its system calls are filtered (seccomp(2), mode 2), and the tools that it starts do without those that are refused.
    expect(await machine.print(`grep ^Seccomp: /proc/${await showPid('vipnat')}/status`)).toMatch(/\t2$/);
    const log = await machine.print('journalctl -u vipnat --no-pager -o cat');
    expect(log).toContain('10.0.0.50');
    expect(log.split('\n').filter((line) => refusal.test(line))).toEqual([]);
  });

  test('goes on with a new version, which has other options and asks nothing: rules, keepalived and virtual IP stay where they are', async () => {
    const [agent, keepalived] = [await showPid('vipnat'), await showPid('keepalived')];
    const said = await machine.print(
      `${watchRules}; apt-get install --yes ./vipnat.deb >&2; ${inSync}; ${endWatch}`,
    );
    expect(said).toBe('');
    expect(await showPid('vipnat')).not.toBe(agent);
    expect(await showPid('keepalived')).toBe(keepalived);
    expect(await showAddresses()).toContain('10.0.0.50/32');
    const settings = await machine.print('cat /etc/vipnat/vipnat.yaml');
    expect(settings).toMatch(/^# Another text\.[^]*\nvip: 10\.0\.0\.50\n/);
    expect(settings).toContain((await machine.print('cat /usr/share/vipnat/vipnat.yaml')).trim());
  });

  test('goes on as it is when a version comes that refuses the configuration', async () => {
    const agent = await showPid('vipnat');
    await machine.print("sed -i '$ a colour: blue' /etc/vipnat/vipnat.yaml");
    expect(await install('vipnat.deb')).toContain('vipnat: this version refuses');
    expect(await showPid('vipnat')).toBe(agent);
    await machine.print("sed -i '/^colour/d' /etc/vipnat/vipnat.yaml");
  });

  test('goes back to the version before', async () => {
    const agent = await showPid('vipnat');
    await install('older.deb');
    expect(await machine.print("dpkg-query --show --showformat '${Version}' vipnat")).toBe('0.0.9-1');
    expect(await showPid('vipnat')).not.toBe(agent);
    await machine.print(inSync);
  });

  test('takes its rules along when it is removed, and leaves keepalived and the virtual IP', async () => {
    const keepalived = await showPid('keepalived');
    await machine.print('apt-get remove --yes vipnat');
    expect(await countRules()).toBe('0');
    expect(await showPid('keepalived')).toBe(keepalived);
    expect(await showAddresses()).toContain('10.0.0.50/32');
    // keepalived watches it until its configuration is another.
    await machine.print('apt-get purge --yes vipnat');
    expect(await machine.print('cat /run/vipnat/keepalived/serving')).toBe('0');
    await machine.print('systemctl stop keepalived; rm /etc/keepalived/keepalived.conf');
  });
});

testOwnUnit(() => machine, install);

describe('the .rpm', () => {
  const rpm = 'rpm --nodeps';

  test('asks for what vipnat starts, and is whole', async () => {
    expect(await machine.print('rpm --checksig vipnat.rpm')).toBe('vipnat.rpm: digests OK');
    const needs = (await machine.print('rpm --query --package --requires vipnat.rpm')).split('\n');
    expect(needs).toEqual(expect.arrayContaining(['glibc >= 2.28', 'iptables', 'libstdc++']));
  });

  test('installs, updates a running agent, and takes everything along but a changed configuration', async () => {
    // Where such packages belong, somebody else brings it.
    await machine.print('mkdir --parents /usr/share/zsh/site-functions');
    const before = await listFiles();
    await machine.print(`${rpm} --install vipnat.rpm && rpm --verify --nodeps vipnat
      printf 'vip: 10.0.0.50\\nendpoints: 10.0.0.11:6443\\n' >>/etc/vipnat/vipnat.yaml
      systemctl enable --now vipnat
      until ${inSync}; do sleep 0.2; done`);
    const agent = await showPid('vipnat');
    expect(await machine.print(`${watchRules}; ${rpm} --upgrade --force vipnat.rpm; ${endWatch}`)).toBe('');
    expect(await showPid('vipnat')).not.toBe(agent);
    await machine.print(
      `${rpm} --erase vipnat; rm /etc/vipnat/vipnat.yaml.rpmsave; rmdir /etc/vipnat || true`,
    );
    expect(await countRules()).toBe('0');
    expect(await listFiles()).toBe(before);
  });
});
