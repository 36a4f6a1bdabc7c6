/**
 * How the cost of a look and of a change grows with the rules of a host: ours (VIPs) and others'. Run by
 * `scripts/bench rules`; writes its table into docs/benchmarks.md.
 */
// A plain import would run it here.
import { fileURLToPath } from 'node:url';
import { Namespaces } from '../../../test/support/network/namespaces.ts';
import { describeMachine } from '../shared/machine.ts';
import { writeSection } from '../shared/page.ts';
import { renderNft, renderIptables } from '../shared/foreign-rules.ts';
import type { RulesReport } from './measure.ts';

const program = fileURLToPath(new URL('measure.ts', import.meta.url));
const limitMs = 300_000;

/** One way to write rules, what others use there, and how they load theirs. */
const dialects = [
  { name: 'iptables-nft', option: 'nft', load: ['iptables-nft-restore', '--noflush'], reads: 'few' },
  // As plan, check and doctor read.
  {
    name: 'iptables-nft, all read',
    option: 'nft',
    load: ['iptables-nft-restore', '--noflush'],
    reads: 'all',
  },
  { name: 'iptables-legacy', option: 'legacy', load: ['iptables-legacy-restore', '--noflush'], reads: 'few' },
  { name: 'nftables', option: 'none', load: ['nft', '-f', '-'], reads: 'few' },
] as const;

/** A VIP with three apiservers has six rules in iptables and five in nftables. */
const cases = [
  { name: 'one VIP', vips: 1, foreignRules: 0, times: 21 },
  { name: '200 VIPs', vips: 200, foreignRules: 0, times: 11 },
  { name: 'one VIP, 100 foreign rules', vips: 1, foreignRules: 100, times: 21 },
  { name: 'one VIP, 1,000 foreign rules', vips: 1, foreignRules: 1000, times: 21 },
  { name: 'one VIP, 10,000 foreign rules', vips: 1, foreignRules: 10_000, times: 11 },
  { name: 'one VIP, 100,000 foreign rules', vips: 1, foreignRules: 100_000, times: 5 },
] as const;

const namespaces = new Namespaces();
try {
  const rows: string[] = [];
  for (const { name, vips, foreignRules, times } of cases) {
    for (const [index, dialect] of dialects.entries()) {
      const namespace = await namespaces.create(`rules-${vips}-${foreignRules}-${index}`);
      await load(namespace, dialect, foreignRules);
      const words = [dialect.option, String(vips), String(times), dialect.reads];
      const { pollMs, changeMs } = await measure(namespace, words);
      const row = `| ${name} | ${dialect.name} | ${format(pollMs)} | ${format(changeMs)} |`;
      process.stdout.write(`${row}\n`);
      rows.push(row);
    }
  }
  const head = ['| host | rules in | a sync | a change |', '| --- | --- | ---: | ---: |'];
  const title = `\`scripts/bench rules\`, ${new Date().toISOString().slice(0, 10)}. ${describeMachine()}.`;
  const file = await writeSection('rules', [title, '', ...head, ...rows].join('\n'));
  process.stdout.write(`wrote ${file}\n`);
} finally {
  await namespaces.close();
}

async function load(namespace: string, { load: command }: (typeof dialects)[number], count: number) {
  if (count === 0) return;
  const input = command[0] === 'nft' ? renderNft(count) : renderIptables(count);
  const { exitCode, stderr } = await namespaces.run(namespace, command, { input, limitMs });
  if (exitCode !== 0) throw new Error(stderr);
}

async function measure(namespace: string, words: readonly string[]): Promise<RulesReport> {
  const command = [process.execPath, program, ...words];
  const { exitCode, stdout, stderr } = await namespaces.run(namespace, command, { limitMs });
  if (exitCode !== 0) throw new Error(stderr);
  return JSON.parse(stdout) as RulesReport;
}

/** The median, and the worst in brackets. */
function format(values: readonly number[]): string {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (index: number) => `${(sorted[index] ?? Number.NaN).toFixed(0)} ms`;
  return `${at(Math.floor(sorted.length / 2))} (${at(sorted.length - 1)})`;
}
