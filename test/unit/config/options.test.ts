import { readConfig } from '../../../config/load.ts';
import { readCall } from '../../support/documents/call.ts';
import { test, expect } from '@jest/globals';

/** A command line as text, `_` for a blank, or as words. */
async function read(line: string | readonly string[]) {
  const words = typeof line === 'string' ? line.split(' ').map((word) => word.replaceAll('_', ' ')) : line;
  const { flags } = await readCall(['run', ...words]);
  return await readConfig({ flags, environment: {}, file: undefined });
}

const examples = new Map([
  ['--vip', '10.0.0.50:6443'],
  ['--endpoints', '10.0.0.11:6443,10.0.0.12:6443'],
  ['--listen', '0.0.0.0:10268'],
  ['--probe-timeout', '0.5s'],
]);

const [noAddress, noPort] = ['is not an IP address', 'needs a port from 1 to 65535'];
const linkLocal = 'is a link-local address: it means another host on each link';
const noDuration = 'is not a duration with its unit, ms or s';

test.each([
  ['--vip 10.0.0.300', noAddress],
  ['--vip 10.0.0.50:0', noPort],
  ['--vip 10.0.0.50:65536', noPort],
  ['--vip [fd00::1]:x', noPort],
  ['--vip 0.0.0.0', 'is the unspecified address: no host has it'],
  ['--vip 127.0.0.1', 'is a loopback address: other hosts cannot reach it'],
  ['--vip 224.0.0.18', 'is a multicast address, not one host'],
  ['--vip 169.254.1.1', linkLocal],
  ['--vip 255.255.255.255', 'is a broadcast address, not one host'],
  ['--vip ::ffff:10.0.0.50', 'is an IPv4 address in IPv6 form: write it in IPv4 form'],
  ['--endpoints m1:6443', noAddress],
  ['--endpoints 10.0.0.11', noPort],
  ['--endpoints fd00::11', 'needs brackets and a port: [ADDR]:PORT'],
  ['--endpoints 127.0.0.1:6443', 'is a loopback address: other hosts cannot reach it'],
  ['--listen 10268', noAddress],
  ['--listen 127.0.0.1', noPort],
  ['--listen 127.0.0.1:0', noPort],
  ['--listen ::1', 'needs brackets and a port: [ADDR]:PORT'],
  ['--listen 224.0.0.1:10268', 'is a multicast address, not one host'],
  ['--listen 0.0.0.1:10268', 'is the unspecified address: no host has it'],
  ['--listen [fe80::1]:10268', linkLocal],
  ['--probe-timeout 250', noDuration],
  ['--probe-timeout -1s', noDuration],
  ['--probe-timeout 1m', noDuration],
  ['--probe-timeout 19ms', 'is not between 20ms and 10s'],
  ['--probe-timeout 10.001s', 'is not between 20ms and 10s'],
])('%s %s', async (line, complaint) => {
  const [flag = ''] = line.split(' ');
  const { problems } = await read(line);
  expect(problems).toEqual([`${line} ${complaint}. Example: ${flag} ${examples.get(flag) ?? ''}`]);
});

test.each([
  ...['', 'M1', 'm_1', '-m1', 'm1.', 'a..b', 'm1\n', 'a'.repeat(254)].map((name): [string, RegExp] => [
    `--node-name=${name}`,
    /^--node-name \S.* is not a name of a node: .* Example: --node-name master-1$/,
  ]),
  ...['/run/\0', '/run/a\nb', '/run/\u001b[2J'].map((path): [string, RegExp] => [
    `--run-dir=${path}`,
    /^--run-dir \S+ has a control character\. Example: /,
  ]),
  [
    `--vip=\u001b[2J${'x'.repeat(1000)}`,
    /^(?=.{0,199}$)--vip "\\u001b\[2Jx+…" is not an IP address\. /,
  ] as const,
])('%j is refused in one short line that is safe to print', async (word, problem) => {
  expect((await read([word])).problems).toEqual([expect.stringMatching(problem)]);
});

test.each([
  ['--probe-interval 1.5s --probe-timeout 100ms', { probeIntervalMs: 1500, probeTimeoutMs: 100 }],
  ['--node-name m1', { nodeName: 'm1' }],
  ['--node-name ip-10-0-0-11.eu.compute.internal', { nodeName: 'ip-10-0-0-11.eu.compute.internal' }],
  [`--node-name ${'a'.repeat(253)}`, { nodeName: 'a'.repeat(253) }],
  ['--listen 127.0.0.1:9000', { listen: { family: 'ipv4', address: '127.0.0.1', port: 9000 } }],
  ['--listen 0.0.0.0:10268', { listen: { family: 'ipv4', address: '0.0.0.0', port: 10_268 } }],
  ['--listen [::]:10268', { listen: { family: 'ipv6', address: '::', port: 10_268 } }],
  ['--listen [FD00:0::1]:10268', { listen: { family: 'ipv6', address: 'fd00::1', port: 10_268 } }],
  ['--listen off', { listen: null }],
])('%s is taken', async (line, config) => {
  expect(await read(line)).toMatchObject({ problems: [], config });
});

const family = 'is IPv6, but no virtual IP is. Add an IPv6 virtual IP';

/** What is given, and its problems behind `|`. An empty flag is one, not an empty list. Without a VIP that can be read nothing contradicts. */
const contradictions = `
--vip 10.0.0.50 --vip 10.0.0.50:6443 | --vip 10.0.0.50:6443 is given twice. Leave one out
--vip 10.0.0.50 --vip 10.0.0.50:8443
--vip 10.0.0.50:8443 --endpoints 10.0.0.50:6443 | --endpoints 10.0.0.50:6443 is at a virtual IP: connections would run in a loop. Give the apiservers' own addresses
--vip 10.0.0.50 --mode service-chain --iptables none | --mode service-chain leads to a chain of iptables, and --iptables is none. Leave out the mode
--vip 10.96.0.1 --cluster-ip 10.96.0.1 | --cluster-ip 10.96.0.1 is a virtual IP. Give the ClusterIP of default/kubernetes
--vip 10.0.0.50 --cluster-ip 10.96.0.1,10.96.0.2 | --cluster-ip 10.96.0.2 is a second ClusterIP for IPv4. Give one per family
--vip 10.0.0.50 --cluster-ip fd00:10:96::1 --endpoints [fd00::11]:6443 | --cluster-ip fd00:10:96::1 ${family} | --endpoints [fd00::11]:6443 ${family}
--vip 10.0.0.50 --listen 10.0.0.50:6443 | --listen 10.0.0.50:6443 is a virtual IP that vipnat balances. Give another port
--vip 10.0.0.50 --listen 10.0.0.50:10268
--endpoints 10.0.0.11:6443
--vip nonsense --endpoints 10.0.0.11:6443 | --vip nonsense is not an IP address. Example: --vip 10.0.0.50:6443
--mode clusterip | --mode clusterip is none of auto, service-chain, cluster-ip, direct. Example: --mode cluster-ip
--cluster-ip= | --cluster-ip "" is not an IP address. Example: --cluster-ip 10.96.0.1`;

test.each<[line: string, ...problems: string[]]>([
  ...['/nowhere/ca.crt', '/etc/passwd'].map((path): [string, string] => [
    `--vip 10.0.0.50 --ca-file ${path}`,
    `--ca-file ${path} cannot be read as a PEM certificate. Give the cluster's CA, such as /etc/kubernetes/pki/ca.crt`,
  ]),
  ...['/nowhere/admin.conf', '/etc'].map((path): [string, string] => [
    `--vip 10.0.0.50 --kubeconfig ${path}`,
    `--kubeconfig ${path} is not a readable file. Give a kubeconfig, such as /etc/kubernetes/admin.conf`,
  ]),
  ...['lc', 'rr', 'hash'].flatMap((method): [string, ...string[]][] => [
    ...['service-chain', 'cluster-ip'].map((mode): [string, string] => [
      `--vip 10.0.0.50 --method ${method} --mode ${mode}`,
      `--method ${method} cannot be had with the mode ${mode}, where kube-proxy chooses. Leave out the mode, or give direct`,
    ]),
    ...['auto', 'direct'].map((mode): [string] => [`--vip 10.0.0.50 --method ${method} --mode ${mode}`]),
  ]),
  ...['cluster-ip ipvs', 'service-chain iptables'].flatMap((pair): [string, ...string[]][] => {
    const [mode = '', needed = ''] = pair.split(' ');
    return ['ipvs', 'iptables', 'nftables', 'none', 'auto'].map((proxyMode) => [
      `--vip 10.0.0.50 --mode ${mode} --proxy-mode ${proxyMode}`,
      ...(['auto', needed].includes(proxyMode)
        ? []
        : [
            `--mode ${mode} follows kube-proxy in its mode ${needed}, and --proxy-mode is ${proxyMode}. Leave out the mode`,
          ]),
    ]);
  }),
  ...contradictions
    .trim()
    .split('\n')
    .map((row): [string, ...string[]] => {
      const [line = '', ...problems] = row.split(' | ');
      return [line, ...problems];
    }),
])('values that contradict one another or this host: %s', async (line, ...problems) => {
  expect((await read(line)).problems).toEqual(problems);
});
