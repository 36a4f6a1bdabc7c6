import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { readSection, readTable, unquote } from '../support/documents/table.ts';

const readRows = (path: string) =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) =>
      line
        .slice(2, -1)
        .split('|')
        .map((cell) => unquote(cell.trim())),
    );

test("README's figures of failures are the worst of docs/benchmarks.md", () => {
  const measured = readRows('docs/benchmarks.md');
  const titles = measured.find(([first]) => first === 'fault') ?? [];
  const findWorst = (setUp: string) =>
    measured
      .filter(
        ([fault = '', second]) => ['frozen', 'blackholed', 'holder'].includes(fault) && second === setUp,
      )
      .map((row) => row[titles.indexOf('failing p99')] ?? '')
      .sort(
        (one, other) =>
          parseFloat(other) * (other.endsWith(' s') ? 1000 : 1) -
          parseFloat(one) * (one.endsWith(' s') ? 1000 : 1),
      )[0];
  expect(readSection('README.md', 'Figures').match(/[\d.]+ s\b/g)).toEqual(
    ['vipnat', 'keepalived + HAProxy'].map(findWorst),
  );
});

/** The part of docs/benchmarks.md that a link of a text leads to. */
function readMeasured(text: string): string {
  const [, anchor] = /benchmarks\.md#([a-z0-9-]+)/.exec(text) ?? [];
  const headings = readFileSync('docs/benchmarks.md', 'utf8').match(/^#+ .*$/gm) ?? [];
  const toAnchor = (heading: string) =>
    heading
      .toLowerCase()
      .replaceAll(/[^a-z0-9 -]/g, '')
      .replaceAll(' ', '-');
  const found = headings
    .map((line) => line.replace(/^#+ /, ''))
    .find((heading) => toAnchor(heading) === anchor);
  return readSection('docs/benchmarks.md', found ?? '');
}

const listNumbers = (text: string) => text.match(/\d+(?:[.,]\d+)*/g) ?? [];

test('each figure in the limits of docs/services.md is in the part of docs/benchmarks.md that it links to', () => {
  const limits = readTable(readSection('docs/services.md', 'Limits with figures')).map(
    ([, figure = '', source = '']) => [figure, source],
  );
  expect(limits.length).toBeGreaterThan(5);
  for (const [figure = '', source = ''] of limits)
    expect(listNumbers(readMeasured(source))).toEqual(expect.arrayContaining(listNumbers(figure)));
});

const [install, services, quickstart] = ['docs/install.md', 'docs/services-operate.md', 'docs/quickstart.md'];
const chart = 'manifests/chart';

// What documents repeat, and what decides it.
test.each([
  [`${chart}/Chart.yaml`, />=(1\.\d+)\.0-0/, 'with credentials, $1 or later', [install]],
  [`${chart}/templates/_helpers.tpl`, /"<(1\.\d+)\.0-0"/, 'Kubernetes $1 or later', [install, services]],
  ['cli/doctor/checks/services.ts', /(nft \d\S+ or later)/, '$1', [install, services]],
  ['package.json', /"node": ">=([\d.]+)\.0"/, 'Node.js $1 or later', [install, quickstart]],
  ['manifests/static-pod.yaml', /- (NET\S+)\s+- (\S+)\s+- (NET_RAW)/, '`$1`, `$2` and `$3`, in', [install]],
  ['tools/release/images/images.ts', /--format', '(oci)'/, 'Images of a release have none', [install]],
  ['cli/manifest/request.ts', /'t(\w+ capabilities instead of privileged)/, 'T$1', [`${chart}/README.md`]],
] as [string, RegExp, string, string[]][])('documents tell %s as it is', (source, form, sentence, paths) => {
  const [found = `${source} says nothing`] = form.exec(readFileSync(source, 'utf8')) ?? [];
  for (const path of paths) expect(readFileSync(path, 'utf8')).toContain(found.replace(form, sentence));
});
