import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies } from './traffic.ts';
import { quoteWords } from '../../../lib/text.ts';
import { vipnatCommand } from '../../support/host/vipnat.ts';
import { vips } from '../../support/network/layout.ts';
import { test, expect } from '@jest/globals';
import { stripVTControlCharacters } from 'node:util';

const cluster = useCluster('all tests', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
});

/** What a command shows on a terminal of so many columns on m1. */
async function show(columns: number, words: readonly string[], environment: string[] = []): Promise<string> {
  const command = quoteWords(['env', '-u', 'COLUMNS', 'TERM=xterm', ...environment, ...vipnatCommand(words)]);
  const script = `stty cols ${columns} rows 50; ${command}`;
  const onTerminal = ['script', '--quiet', '--command', script, '/dev/null'];
  const { stdout } = await cluster.run('m1', onTerminal);
  return stdout.replaceAll('\r\n', '\n');
}

const vipArguments = ['--vip', vips.ipv4];
const unicode = ['LC_ALL=C.UTF-8'];

/** Commands are to be pasted, so they are not broken: doctor's stand nine columns in, check's on a line of its own. */
const commandLines = [/^ {9}(?:#|\S+ -|vipnat |docker |nft )/, /^ +vipnat run --once(?: --\S+)+$/];

test.each([60, 80, 120, 200])(
  'status, check and doctor fit a terminal of %p columns, in colour',
  async (columns) => {
    for (const words of [['status'], ['check'], ['doctor', '--capture', '0s']]) {
      const text = await show(columns, [...words, ...vipArguments], unicode);
      const isLongProse = (line: string) =>
        line.length > columns && !commandLines.some((pattern) => pattern.test(line));
      expect(stripVTControlCharacters(text).split('\n').filter(isLongProse)).toEqual([]);
      expect(text).toMatch(/\u001b\[3[123]m/);
    }
  },
);

test('a terminal without colours or Unicode gets neither, and no command is broken on it', async () => {
  const plain = await show(60, ['status', ...vipArguments], ['LC_ALL=C', 'NO_COLOR=1']);
  expect(plain).toMatch(/^10\.77\.0\.50:6443 {3}held by this node - service-chain\n/);
  expect(plain).toMatch(/^[\n\x20-\x7e]*$/);
  expect(await show(60, ['status', '--no-color', ...vipArguments], unicode)).not.toContain('\u001b');
  const isCommand = (line: string) => line.startsWith('iptables');
  const [narrow, wide] = [
    await show(60, ['plan', ...vipArguments]),
    await show(200, ['plan', ...vipArguments]),
  ];
  expect(narrow.split('\n').filter(isCommand).length).toBeGreaterThan(5);
  expect(narrow.split('\n').filter(isCommand)).toEqual(wide.split('\n').filter(isCommand));
  expect(await show(60, ['check', ...vipArguments])).toMatch(
    /^ +vipnat run --once --vip=10\.77\.0\.50:6443 --state-dir=\S+ --run-dir=\S+$/m,
  );
  expect(narrow.split('\n').filter((line) => line.startsWith('#') && line.length > 60)).toEqual([]);
});
