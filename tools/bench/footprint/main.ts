/**
 * What vipnat costs: how long `plan --offline` takes as a whole process, and what a resting agent uses of memory and
 * processor, with 0 to 100,000 foreign rules and with 3 to 9 apiservers. Run by `scripts/bench footprint [MINUTES]`: how long the agents rest, all
 * at the same time, 1 by default; writes its figures into docs/benchmarks.md.
 */
import { fileURLToPath } from 'node:url';
import { type Rest, product, measureAgent } from './rest.ts';
import { Namespaces } from '../../../test/support/network/namespaces.ts';
import { measureProbing } from './probing.ts';
import { describeMachine } from '../shared/machine.ts';
import { writeSection } from '../shared/page.ts';
import { median } from '../shared/statistics.ts';
import { spawnSync } from 'node:child_process';
import { renderIptables } from '../shared/foreign-rules.ts';

const generationProgram = fileURLToPath(new URL('generation.ts', import.meta.url));
const runs = 21;
const foreignRules = [0, 100, 1000, 10_000, 100_000];

/** kube-proxy's mode ipvs gives a host an address for each Service. */
const addressCounts = [0, 5000];
const loadLimitMs = 120_000;

/** An agent at rest, and what was written to its nftables. */
interface CountedRest extends Rest {
  readonly writes: number;
}

const minutes = Number(process.argv[2] ?? '1');
if (!(minutes > 0)) {
  process.stderr.write(`bench: ${process.argv[2] ?? ''} is no number of minutes\n`);
  process.exit(1);
}
const start = measureStart();
process.stdout.write(`${start}\n`);
const namespaces = new Namespaces();
try {
  const rests = await Promise.all(foreignRules.map(measureRest));
  const table = renderTable(rests);
  process.stdout.write(`${table}\n`);
  const addresses = await measureAddresses();
  process.stdout.write(`${addresses}\n`);
  const probing = await measureProbing(namespaces, minutes);
  process.stdout.write(`${probing}\n`);
  const title = `\`scripts/bench footprint ${minutes}\`, ${new Date().toISOString().slice(0, 10)}. ${describeMachine()}.`;
  const file = await writeSection(
    'footprint',
    [title, '', start, '', table, '', addresses, '', probing].join('\n'),
  );
  process.stdout.write(`wrote ${file}\n`);
} finally {
  await namespaces.close();
}

function measureStart(): string {
  const plan = [product, 'plan', '--offline', '--vip', '10.0.0.50', '--proxy-mode', 'iptables'];
  const pairs = Array.from({ length: runs }, () => ({ empty: time(['-e', '']), plan: time(plan) }));
  const [empty, whole] = [median(pairs.map((pair) => pair.empty)), median(pairs.map((pair) => pair.plan))];
  const ratio = median(pairs.map((pair) => pair.plan / pair.empty));
  return `\`vipnat plan --offline\` takes ${whole.toFixed(0)} ms as a whole process. An empty script takes ${empty.toFixed(0)} ms. The median ratio of ${runs} pairs is ${ratio.toFixed(2)}.`;
}

function renderTable(rests: readonly CountedRest[]): string {
  const heading = ['foreign rules', 'memory', 'processor each minute', `writes in ${minutes} min`];
  const rows = rests.map(({ megabytes, secondsPerMinute, writes }, index) => [
    (foreignRules[index] ?? 0).toLocaleString('en-US'),
    ...[`${megabytes.toFixed(0)} MiB`, `${secondsPerMinute.toFixed(2)} s`, String(writes)],
  ]);
  return [heading, heading.map(() => '-:'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function time(words: readonly string[]): number {
  const started = performance.now();
  const { status } = spawnSync(process.execPath, words, { stdio: 'ignore' });
  if (status !== 0) throw new Error(`${words.join(' ')}: exit status ${String(status)}`);
  return performance.now() - started;
}

async function measureRest(rules: number): Promise<CountedRest> {
  const namespace = await namespaces.create(`rest-${rules}`);
  const { exitCode, stderr } = await namespaces.run(namespace, ['iptables-nft-restore', '--noflush'], {
    input: renderIptables(rules),
    limitMs: loadLimitMs,
  });
  if (exitCode !== 0) throw new Error(stderr);
  let generation = 0;
  const words = ['--vip', '10.0.0.50', '--endpoints', '10.0.0.11:6443'];
  const rest = await measureAgent({ namespaces, namespace, minutes }, words, async () => {
    generation = await readGeneration(namespace);
  });
  return { ...rest, writes: (await readGeneration(namespace)) - generation };
}

/** What the addresses of Services add, as a table. */
async function measureAddresses(): Promise<string> {
  const rows = await Promise.all(
    addressCounts.map(async (count) => {
      const namespace = await namespaces.create(`addresses-${count}`);
      const batch = Array.from(
        { length: count },
        (_, at) => `addr add 10.96.${Math.floor(at / 250)}.${1 + (at % 250)}/32 dev kube-ipvs0`,
      );
      await namespaces.run(namespace, ['ip', 'link', 'add', 'kube-ipvs0', 'type', 'bridge']);
      await namespaces.run(namespace, ['ip', '-batch', '-'], {
        input: batch.join('\n'),
        limitMs: loadLimitMs,
      });
      const words = ['--vip', '10.0.0.50', '--endpoints', '10.0.0.11:6443'];
      const { secondsPerMinute } = await measureAgent({ namespaces, namespace, minutes }, words);
      return `| ${count.toLocaleString('en-US')} | ${(secondsPerMinute / 0.6).toFixed(2)} % |`;
    }),
  );
  return ['| further addresses | processor |', '| -: | -: |', ...rows].join('\n');
}

async function readGeneration(namespace: string): Promise<number> {
  const { stdout } = await namespaces.run(namespace, [process.execPath, generationProgram]);
  return Number(stdout);
}
