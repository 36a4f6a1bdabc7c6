/** Prints configurations on a host with a few interfaces, and has keepalived read each. For keepalived-command.test.ts. */
import { runProgram } from '../../../cli/program.ts';
import { join } from 'node:path';
import { writeFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { spawnSync, execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';

const unicast = ['--peers', '10.0.0.11,10.0.0.12,10.0.0.13'];
const unicast6 = ['--peers', 'fd00::11,fd00::12'];
const ipv4 = ['--vip', '10.0.0.50'];
const ipv6 = ['--vip', 'fd00::50'];
const cases: Readonly<Record<string, readonly string[]>> = {
  'IPv4 by multicast': ipv4,
  'IPv4 by unicast': [...ipv4, ...unicast],
  'IPv4 by unicast to --endpoints': [...ipv4, '--endpoints', '10.0.0.11:6443,10.0.0.12:6443'],
  'IPv6 by multicast': ipv6,
  'IPv6 by unicast': [...ipv6, ...unicast6],
  'both families by multicast': [...ipv4, ...ipv6],
  'both families by unicast': [...ipv4, ...ipv6, ...unicast, ...unicast6],
  'several VIPs, two of them at one address': [
    ...ipv4,
    '--vip',
    '10.0.0.50:443',
    '--vip',
    '10.0.0.51',
    ...unicast,
  ],
  'adverts of under a second': [...ipv4, ...ipv6, ...unicast, '--advert', '300ms'],
  'everything given': [
    ...ipv4,
    '--interface',
    'eth0.7',
    '--vrid',
    '255',
    '--priority',
    '254',
    '--advert',
    '10s',
  ],
};

const commands = `
link add eth0 type veth peer name other
link set eth0 up
link set other up
link add eth0.7 type veth peer name other.7
link set other.7 up
link set eth0.7 up
addr add 10.0.0.11/24 dev eth0 label eth0:1
addr add fd00::11/64 dev eth0 nodad
addr add 192.0.2.2/24 dev eth0.7`;

async function print(args: readonly string[]) {
  let stdout = '';
  let stderr = '';
  const exitCode = await runProgram({
    args: ['keepalived', ...args],
    environment: {},
    stdout: (text) => (stdout += text),
    stderr: (text) => (stderr += text),
  });
  return { exitCode, stdout, stderr };
}

/** What keepalived finds wrong with it; empty when it takes it. */
function check(text: string): string {
  const file = join(folder, 'keepalived.conf');
  writeFileSync(file, text, { mode: 0o644 });
  const { status, stdout, stderr, error } = spawnSync('keepalived', ['--config-test', `--use-file=${file}`], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  if (error !== undefined) throw error;
  return status === 0 ? '' : `${status}: ${stdout}${stderr}`;
}

/** What holds virtual IPs that are not vipnat's. */
const others = 'vrrp_instance ingress {\n}\n';

execFileSync('ip', ['-batch', '-'], { input: `${commands.trim()}\n` });
const folder = mkdtempSync(join(tmpdir(), 'vipnat-keepalived-'));
try {
  const outcomes: Record<string, object> = {};
  for (const [name, args] of Object.entries(cases)) {
    const printed = await print(args);
    outcomes[name] = { ...printed, complaint: check(printed.stdout) };
  }
  const broken = check((await print(ipv4)).stdout.replace('interface eth0', 'interface eth9'));
  const file = join(folder, 'new', 'written.conf');
  const written = { ...(await print([...ipv4, '--output', file])), text: readFileSync(file, 'utf8') };
  const unwritten = await print([...ipv4, '--output', join(file, 'keepalived.conf')]);
  const again = await print([...ipv4, '--output', file]);
  const ingress = join(folder, 'ingress.conf');
  writeFileSync(ingress, others);
  const foreign = { ...(await print([...ipv4, '--output', ingress])), text: readFileSync(ingress, 'utf8') };
  process.stdout.write(JSON.stringify({ outcomes, broken, written, unwritten, again, foreign }));
} finally {
  rmSync(folder, { recursive: true });
}
