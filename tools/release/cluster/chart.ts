import { type Release, readMaintainer, readRepository } from '../settings/release.ts';
import { mkdtempSync, writeFileSync, rmSync, cpSync, mkdirSync, readFileSync, appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { printManifest } from './print-manifest.ts';
import { packTar } from '../settings/pack.ts';
import { gzipSync } from 'node:zlib';
import { type PaperNames, fillPapers, readPaperNames } from '../documents/papers.ts';
import { stringify } from 'yaml';

/** What the templates change by the chart's values: as `vipnat manifest` prints it. */
const bases = {
  'daemonset.yaml': ['daemonset', '--vip', '10.0.0.50'],
  'daemonset-least-privilege.yaml': ['daemonset', '--vip', '10.0.0.50', '--least-privilege'],
  'services.yaml': ['services', '--inject-gates'],
  'services-webhook.yaml': ['services', '--inject-gates=webhook'],
} as const;

/** Packs the chart as `helm install` takes it, whatever the image of this release is called. */
export async function makeChart(release: Release): Promise<readonly string[]> {
  const file = `vipnat-chart-${release.version}.tgz`;
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-chart-'));
  try {
    const chart = join(folder, 'vipnat');
    await writeChart(release.root, chart, (words) => printManifest(release, words));
    const names = readPaperNames(release);
    fillPapers(chart, names);
    nameImage(chart, names);
    nameOrigin(release, chart);
    // Chart.yaml first, as helm package has it; by the pinned Node.js, whose zlib is the same everywhere.
    const tar = await packTar(release, folder, ['vipnat/Chart.yaml', ...listRest()]);
    writeFileSync(join(release.output, file), gzipSync(tar, { level: 9 }));
  } finally {
    rmSync(folder, { recursive: true });
  }
  return [file];
}

/**
 * Writes the whole chart into a folder: what a checkout has of it, the alerts, dashboards, and the objects that `vipnat manifest` prints (ADR 47). Definitions
 * are in `crds/` of a chart of their own, because Helm installs these before all else, and of a chart that is left out it installs none.
 */
export async function writeChart(
  root: string,
  folder: string,
  print: (words: readonly string[]) => Promise<string>,
): Promise<void> {
  cpSync(join(root, 'manifests/chart'), folder, { recursive: true });
  for (const name of ['alerts.yaml', 'dashboards'])
    cpSync(join(root, 'manifests', name), join(folder, 'base', name), { recursive: true });
  const definitions = join(folder, 'charts/definitions');
  for (const path of [join(folder, 'base'), join(definitions, 'crds')]) mkdirSync(path, { recursive: true });
  writeFileSync(
    join(definitions, 'Chart.yaml'),
    describeDefinitions(readFileSync(join(folder, 'Chart.yaml'), 'utf8')),
  );
  for (const [name, words] of Object.entries(bases)) {
    const documents = (await print(words)).trimEnd().split('\n---\n');
    const isDefinition = (text: string) => /^kind: CustomResourceDefinition$/m.test(text);
    const others = documents.filter((text) => !isDefinition(text));
    writeFileSync(join(folder, 'base', name), joinDocuments(others));
    if (name === 'services.yaml')
      writeFileSync(join(definitions, 'crds', name), joinDocuments(documents.filter(isDefinition)));
  }
}

/** Chart.yaml of the definitions: of the chart's version. */
function describeDefinitions(chart: string): string {
  const [version = ''] = /^version: .*$/m.exec(chart) ?? [];
  const description = 'Definitions of the objects that give addresses to Services.';
  return `apiVersion: v2\nname: definitions\ndescription: ${description}\n${version}\n`;
}

const joinDocuments = (documents: readonly string[]) => `${documents.join('\n---\n')}\n`;

const listRest = () =>
  ['README.md', 'values.yaml', 'values.schema.json', 'base', 'charts', 'templates'].map(
    (name) => `vipnat/${name}`,
  );

/** Where the chart's values and their table name the image of a checkout, they name this release's. */
export function nameImage(chart: string, { version, checkoutImage, repository, tag }: PaperNames): void {
  for (const name of ['values.yaml', 'README.md']) {
    const path = join(chart, name);
    const text = readFileSync(path, 'utf8').replaceAll(checkoutImage, repository);
    const isOther = name === 'values.yaml' && tag !== version;
    writeFileSync(path, isOther ? text.replace(/^ {2}tag: ''$/m, `  tag: '${tag}'`) : text);
  }
}

/** Where RELEASE_REPOSITORY is set, Chart.yaml says where the chart is from and who keeps it, and alerts link its pages. */
function nameOrigin(release: Pick<Release, 'root' | 'version'>, chart: string): void {
  const home = readRepository();
  if (home === null) return;
  const values = join(chart, 'values.yaml');
  const base = `runbookBase: '${home}/blob/v${release.version}/'`;
  writeFileSync(values, readFileSync(values, 'utf8').replace("runbookBase: ''", base));
  const maintainer = readMaintainer(release);
  const origin = { home, sources: [home], ...(maintainer !== null && { maintainers: [maintainer] }) };
  appendFileSync(join(chart, 'Chart.yaml'), stringify(origin));
}
