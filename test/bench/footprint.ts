/**
 * What vipnat costs: how long `plan --offline` takes as a whole process, and what a resting agent uses of memory and
 * processor, with no foreign rules and with 10,000. Run by `scripts/bench footprint [MINUTES]`: how long each agent
 * rests, 1 by default.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Namespaces } from '../network/namespaces.ts';

const product = fileURLToPath(new URL('../../dist/vipnat.js', import.meta.url));
const generationProgram = fileURLToPath(new URL('generation.ts', import.meta.url));
const runs = 21;
const foreignRules = 10_000;
const rulesPerChain = 50;
/** Linux counts process time in hundredths of a second on every architecture we build for. */
const ticksPerSecond = 100;
/** What starting costs is not what resting costs. */
const warmUpMs = 10_000;

const minutes = Number(process.argv[2] ?? '1');
if (!(minutes > 0)) {
  process.stderr.write(`bench: ${process.argv[2] ?? ''} is no number of minutes\n`);
  process.exit(1);
}
measureStart();
const namespaces = new Namespaces();
try {
  await measureRest(0);
  await measureRest(foreignRules);
} finally {
  await namespaces.close();
}

function measureStart(): void {
  const plan = [product, 'plan', '--offline', '--vip', '10.0.0.50', '--proxy-mode', 'iptables'];
  const pairs = Array.from({ length: runs }, () => ({ empty: time(['-e', '']), plan: time(plan) }));
  const ratios = pairs.map((pair) => pair.plan / pair.empty);
  print('empty script, whole process', `${median(pairs.map(({ empty }) => empty)).toFixed(0)} ms`);
  print('plan --offline, whole process', `${median(pairs.map((pair) => pair.plan)).toFixed(0)} ms`);
  print(`ratio, median of ${runs} pairs`, median(ratios).toFixed(2));
}

function time(words: readonly string[]): number {
  const started = performance.now();
  const { status } = spawnSync(process.execPath, words, { stdio: 'ignore' });
  if (status !== 0) throw new Error(`${words.join(' ')}: exit status ${String(status)}`);
  return performance.now() - started;
}

async function measureRest(rules: number): Promise<void> {
  const namespace = await namespaces.create(`rest-${rules}`);
  await namespaces.run(namespace, ['iptables-nft-restore', '--noflush'], {
    input: renderForeignRules(rules),
  });
  // The lock file is shared by all namespaces of the machine: somebody else's iptables would be our trigger. What the
  // agent saves is this host's alone.
  const ownRun = [
    'unshare',
    '--mount',
    'sh',
    '-c',
    'mount -t tmpfs none /run; mount -t tmpfs none /var/lib; exec "$@"',
    'sh',
  ];
  const agent = namespaces.start(namespace, [
    ...ownRun,
    ...[process.execPath, product, 'run', '--vip', '10.0.0.50', '--endpoints', '10.0.0.11:6443'],
  ]);
  agent.stderr?.resume();
  const pid = agent.pid ?? 0;
  await sleep(warmUpMs);
  const before = { ticks: readTicks(pid), generation: await readGeneration(namespace) };
  await sleep(minutes * 60_000);
  const share = (readTicks(pid) - before.ticks) / ticksPerSecond / (minutes * 60);
  const writes = (await readGeneration(namespace)) - before.generation;
  print(`run at rest, ${rules} foreign rules: memory`, `${readMemory(pid).toFixed(0)} MB`);
  print(`run at rest, ${rules} foreign rules: processor`, `${(share * 100).toFixed(2)} % of a core`);
  print(`run at rest, ${rules} foreign rules: writes in ${minutes} min`, String(writes));
  agent.kill('SIGTERM');
}

function renderForeignRules(count: number): string {
  const chains = Array.from({ length: count / rulesPerChain }, (_, index) => `FOREIGN-${index}`);
  const rules = chains.flatMap((chain, index) =>
    Array.from(
      { length: rulesPerChain },
      (_, rule) => `-A ${chain} -d 172.16.${index}.${rule}/32 -p tcp -m tcp --dport ${rule + 1} -j RETURN`,
    ),
  );
  return ['*nat', ...chains.map((chain) => `:${chain} - [0:0]`), ...rules, 'COMMIT', ''].join('\n');
}

/** The process's own time and that of its children that ended. */
function readTicks(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return fields.slice(11, 15).reduce((total, field) => total + Number(field), 0);
}

/** Resident memory in MB. */
function readMemory(pid: number): number {
  const [, kilobytes = ''] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1000;
}

async function readGeneration(namespace: string): Promise<number> {
  const { stdout } = await namespaces.run(namespace, [process.execPath, generationProgram]);
  return Number(stdout);
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function print(what: string, figure: string): void {
  process.stdout.write(`${what.padEnd(58)} ${figure}\n`);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
