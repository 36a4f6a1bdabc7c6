import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { useCluster } from '../../support/network/use-cluster.ts';
import { vips } from '../../support/network/layout.ts';
import { expectAnswers, expectBalanced, startProxies, client, vipArguments } from './traffic.ts';
import { type Agent, limitMs, sleep, startAgent, vipnat, waitUntil } from '../../support/host/vipnat.ts';

describe.each([
  { where: 'at all', name: 'net.ipv4.ip_forward' },
  { where: 'what comes by its interface', name: 'net.ipv4.conf.eth0.forwarding' },
])("a VIP's holder that does not forward $where", ({ name }) => {
  const cluster = useCluster('all tests', async () => {
    await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
    await cluster.shell('m1', `sysctl -qw net.ipv4.ip_forward=1 ${name}=0`);
  });

  const run = (...words: string[]) => vipnat(cluster, 'm1', [...words, ...vipArguments]);

  test('serves its own apiserver as long as it may not be changed', async () => {
    const { stderr } = await run('run', '--once', '--sysctls', 'check');
    expect(stderr).toContain('NOT BALANCED');
    expect(stderr).toContain(`IP forwarding is off (${name} is 0)`);
    await expectAnswers(cluster, client, ['m1']);
  });

  test('is shown as it is by check and plan', async () => {
    expect(await run('check')).toMatchObject({
      exitCode: 2,
      stdout: expect.stringContaining(`drift: ${name} is 0: IP forwarding is off`),
    });
    expect((await run('plan')).stdout).toContain(`\nsysctl -w ${name}=1\n`);
    expect((await run('doctor')).stdout).toContain(`IP forwarding is off (${name} is 0)`);
    expect(JSON.parse((await run('plan', '--json')).stdout)).toMatchObject({
      inSync: false,
      sysctls: [{ name, value: '0', wanted: '1' }],
    });
  });

  test('is switched on and balanced by run', async () => {
    expect(await run('run', '--once')).toMatchObject({
      exitCode: 0,
      stderr: expect.stringContaining(`${name} was 0, and is 1 now`),
    });
    await expectBalanced(cluster, client);
    expect(await run('check')).toMatchObject({ exitCode: 0 });
  });
});

/**
 * A router says that it is one for so many seconds, and that fd00:5::/64 is a prefix for an hour (RFC 4861, 4.2), from r0 to whoever is at the
 * other end. Perl is on every Debian, and can.
 */
const advertise = (routerSeconds: number) => String.raw`use Socket qw(:DEFAULT inet_pton);
  my $index = do { open(my $file, "<", "/sys/class/net/r0/ifindex") or die; <$file> + 0 };
  socket(my $socket, AF_INET6, SOCK_RAW, 58) or die "socket: $!";
  setsockopt($socket, 41, 18, pack("i", 255)) or die "hops: $!";
  setsockopt($socket, 41, 17, pack("i", $index)) or die "interface: $!";
  my $all = Socket::pack_sockaddr_in6(0, inet_pton(AF_INET6, "ff02::1"), $index);
  my $prefix = pack("CCCCNNN", 3, 4, 64, 0xc0, 3600, 3600, 0) . inet_pton(AF_INET6, "fd00:5::");
  send($socket, pack("CCnCCnNN", 134, 0, 0, 64, 0, ${routerSeconds}, 0, 0) . $prefix, 0, $all) or die "send: $!";`;

describe("a VIP's holder that heeds router advertisements", () => {
  const ipv6Arguments = ['--vip', `[${vips.ipv6}]:6443`];
  const inside = (machine: string, script: string) => cluster.shell(machine, script);
  const hasRoute = async () => (await inside('m1', 'ip -6 route show default dev e0')).includes('proto ra');
  const hasAddress = async () => (await inside('m1', 'ip -6 address show dev e0')).includes('fd00:5:');
  const advertiseUntil = (routerSeconds: number, isHeeded: () => Promise<boolean>) =>
    waitUntil(async () => {
      await cluster.run('m2', ['perl', '-e', advertise(routerSeconds)]);
      return await isHeeded();
    }, 'no advertisement was heeded');

  const cluster = useCluster('all tests', async () => {
    await startProxies(cluster, ['m1'], 'nft', ['ipv6']);
    await inside(
      'm1',
      `ip link add e0 type veth peer name r0 netns ${cluster.namespaceOf('m2')}
       echo 0 >/proc/sys/net/ipv6/conf/e0/accept_dad; ip link set e0 up; ip addr add 10.5.0.1/24 dev e0`,
    );
    await inside('m2', 'echo 0 >/proc/sys/net/ipv6/conf/r0/accept_dad; ip link set r0 up; sleep 1');
  });

  beforeEach(async () => {
    await inside(
      'm1',
      `ip -6 route flush dev e0 proto ra; ip -6 address flush dev e0 scope global
       echo 0 >/proc/sys/net/ipv6/conf/all/forwarding; echo 1 >/proc/sys/net/ipv6/conf/e0/accept_ra`,
    );
  });

  test.each([
    { what: 'before the first one, it gets an address and a route by it', before: null, after: 1800 },
    { what: 'with an address and no default route, its address is renewed', before: 0, after: 0 },
    { what: 'with a default route, it keeps it', before: 1800, after: 1800 },
  ])('if run switches forwarding on $what', async ({ before, after }) => {
    if (before !== null) await advertiseUntil(before, before === 0 ? hasAddress : hasRoute);
    expect((await vipnat(cluster, 'm1', ['run', '--once', ...ipv6Arguments])).exitCode).toBe(0);
    expect((await inside('m1', 'cat /proc/sys/net/ipv6/conf/all/forwarding')).trim()).toBe('1');
    if (before === null || before === 0) {
      await inside('m1', 'ip -6 address flush dev e0 scope global');
      await advertiseUntil(after, hasAddress);
    }
    expect(await hasRoute()).toBe(after > 0);
  });

  test('keeps its route when somebody runs the command that check, plan and doctor print', async () => {
    await advertiseUntil(1800, hasRoute);
    const { stdout } = await vipnat(cluster, 'm1', ['check', ...ipv6Arguments]);
    const [, command = 'false'] = /; (sysctl -w .*) switches it on/.exec(stdout) ?? [];
    expect((await vipnat(cluster, 'm1', ['plan', ...ipv6Arguments])).stdout).toContain(`\n${command}\n`);
    expect((await vipnat(cluster, 'm1', ['doctor', ...ipv6Arguments])).stdout).toContain(command);
    await inside('m1', command);
    expect((await inside('m1', 'cat /proc/sys/net/ipv6/conf/all/forwarding')).trim()).toBe('1');
    expect(await hasRoute()).toBe(true);
  });

  test('heeds a pod no more that is at the other end of a cable without an address', async () => {
    await inside('m1', 'ip addr del 10.5.0.1/24 dev e0; ip -6 route flush dev e0');
    expect((await vipnat(cluster, 'm1', ['run', '--once', ...ipv6Arguments])).exitCode).toBe(0);
    expect((await inside('m1', 'cat /proc/sys/net/ipv6/conf/e0/accept_ra')).trim()).toBe('1');
  });
});

describe("a VIP's holder whose forwarding somebody switches off while vipnat runs", () => {
  const seat = 'outside client';
  const cases = [
    { sysctls: 'set', family: 'ipv4', name: 'net.ipv4.ip_forward', host: vips.ipv4 },
    { sysctls: 'set', family: 'ipv6', name: 'net.ipv6.conf.all.forwarding', host: vips.ipv6 },
    { sysctls: 'check', family: 'ipv4', name: 'net.ipv4.ip_forward', host: vips.ipv4 },
    { sysctls: 'check', family: 'ipv6', name: 'net.ipv6.conf.all.forwarding', host: vips.ipv6 },
  ] as const;
  let agent: Agent | null = null;
  const inside = (script: string) => cluster.shell('m1', script);

  const cluster = useCluster('all tests', async () => {
    await startProxies(cluster, ['m1'], 'nft', ['ipv4', 'ipv6']);
  });

  afterEach(async () => {
    await agent?.stop();
  });

  test.each(cases)(
    'at --sysctls $sysctls, $family hangs for a moment only',
    async ({ sysctls, name, host }) => {
      const vip = host.includes(':') ? `[${host}]:6443` : `${host}:6443`;
      await inside(`sysctl -qw ${name}=1`);
      agent = await startAgent(cluster, 'm1', ['--vip', vip, '--sysctls', sysctls]);
      const traffic = cluster.seat(seat).connectAtRate({
        ...{ host, port: 6443, perSecond: 50, isNamed: true, durationMs: limitMs, limitMs: 10_000 },
      });
      const answer = sysctls === 'set' ? / from 0 to 1, because balancing/ : /-> passthrough: /;
      await inside(`sysctl -qw ${name}=0`);
      await agent.waitForLine(answer);
      const answeredAt = Date.now();
      await sleep(2000);
      cluster.seat(seat).settle();
      const { startedAt, failures } = await traffic;
      expect(failures.filter(({ atMs }) => startedAt + atMs > answeredAt)).toEqual([]);
      expect((await inside(`sysctl -n ${name}`)).trim()).toBe(sysctls === 'set' ? '1' : '0');
      expect(agent.listLines(answer)).toHaveLength(1);
      expect(agent.log).toContain(name);
    },
  );
});
