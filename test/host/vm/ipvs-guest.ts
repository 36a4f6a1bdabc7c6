/**
 * Runs in a machine whose kernel has IPVS: programs what a real kube-proxy 1.36.3 in ipvs mode left on a master, with
 * three apiservers on addresses of this machine, and lets vipnat balance a VIP through its virtual server.
 */
import { fileURLToPath } from 'node:url';
import type { GuestReport, CommandReport } from './cluster-ip.test.ts';
import { spawn, execFileSync, type ChildProcess, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const folder = process.env['GUEST_FOLDER'] ?? '';
const fromHere = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const captures = fromHere('../../support/fixtures/captures/');
const product = fromHere('../../../dist/vipnat.js');
const vip = '10.77.0.50';
/** Only a connection that nobody answers takes so long, however slow the machine is. */
const limitMs = 60_000;

programKubeProxy();
await startApiservers();
const before = vipnat('check');
const once_ = vipnat('run', '--once');
const inSync = vipnat('check');
const plan = JSON.parse(vipnat('plan', '--json').stdout) as GuestReport['plan'];
const balanced = await request(60);
const agent = spawn(process.execPath, [product, 'run', '--vip', vip]);
let log = '';
agent.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
await until('the agent balances', () => log.includes('cluster-ip'));
execFileSync('ipvsadm', ['-d', '-t', '10.96.0.1:443', '-r', '10.77.0.12:6443']);
const withoutOne = await request(30);
// It polls IPVS each second.
await untilAgentHas(2);
execFileSync('ipvsadm', ['-D', '-t', '10.96.0.1:443']);
await until('the agent goes another way', () => log.includes('cluster-ip -> direct'));
const withoutServer = await request(30);
agent.kill('SIGTERM');
await once(agent, 'exit');
const cleanup = vipnat('cleanup');
const report: GuestReport = {
  ...{ before, once: once_, inSync, cleanup },
  ...{ plan, balanced, withoutOne, withoutServer, log },
  left: execFileSync('iptables-legacy-save', { encoding: 'utf8' }).match(/vipnat/gi)?.length ?? 0,
};
writeFileSync(`${folder}/report.json`, JSON.stringify(report));
process.exit(0);

function programKubeProxy(): void {
  const read = (name: string) => readFileSync(`${captures}${name}`, 'utf8');
  execFileSync('sh', [
    '-ec',
    `
    ip link set lo up
    ip link add kube-ipvs0 type dummy
    for address in 10.77.0.11 10.77.0.12 10.77.0.13 ${vip}; do ip addr add $address/32 dev lo; done
    for address in 10.96.0.1 10.96.7.7; do ip addr add $address/32 dev kube-ipvs0; done
    echo 1 > /proc/sys/net/ipv4/vs/conntrack
  `,
  ]);
  execFileSync('ipset', ['restore'], { input: read('ipset-save.ipvs-three-endpoints.txt') });
  execFileSync('iptables-legacy-restore', { input: read('iptables-legacy-save.ipvs-three-endpoints.txt') });
  execFileSync('ipvsadm', ['-R'], { input: read('ipvsadm-save.three-endpoints.txt') });
}

async function startApiservers(): Promise<void> {
  const [certificate, key] = ['/run/tls.crt', '/run/tls.key'];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-subj', '/CN=kubernetes', '-days', '2', '-out', certificate, '-keyout', key],
    ],
    { stdio: 'ignore' },
  );
  for (const number of [1, 2, 3]) {
    const program = fromHere('../../support/network/apiserver.ts');
    const words = [program, `m${number}`, '6443', certificate, key, `10.77.0.1${number}`];
    const child: ChildProcess = spawn(process.execPath, words);
    if (child.stdout !== null) await once(child.stdout, 'data');
  }
}

function vipnat(command: string, ...words: string[]): CommandReport {
  const options = command === 'cleanup' ? [] : ['--vip', vip];
  const all = [product, command, ...options, ...words];
  const { status, stdout, stderr } = spawnSync(process.execPath, all, { encoding: 'utf8' });
  process.stdout.write(`vipnat ${command}: ${String(status)}\n${stdout}${stderr}`);
  return { status: status ?? -1, stdout, stderr };
}

async function request(count: number): Promise<GuestReport['balanced']> {
  const seat = spawn(process.execPath, [fromHere('../../support/network/seat-program.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const task = { kind: 'requests', host: vip, port: 6443, count, concurrency: 4, limitMs };
  seat.stdin.end(`${JSON.stringify(task)}\n`);
  const [line] = (await once(createInterface({ input: seat.stdout }), 'line')) as [string];
  return JSON.parse(line) as GuestReport['balanced'];
}

/** Until the agent's last look has so many apiservers behind the VIP. */
async function untilAgentHas(count: number): Promise<void> {
  const sample = `vipnat_vip_apiservers{vip="${vip}:6443"} ${count}\n`;
  await until(`the agent has ${count} apiservers`, async () => {
    const metrics = await fetch('http://127.0.0.1:10268/metrics');
    return (await metrics.text()).includes(sample);
  });
}

/** It has no limit, as the machine itself has one: its output says then what was awaited last. */
async function until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
  process.stdout.write(`waiting until ${what}\n`);
  while (!(await isTrue())) await new Promise((resolve) => setTimeout(resolve, 100));
}
