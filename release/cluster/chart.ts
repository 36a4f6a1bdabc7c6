import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { readImageName } from '../settings/image-names.ts';
import { packTar } from '../settings/pack.ts';
import { type Release } from '../settings/release.ts';
import { printManifest } from './print-manifest.ts';

/** What the templates change by the chart's values: as scripts/manifests writes it, with this release's image. */
const bases = {
  'daemonset.yaml': ['daemonset', '--vip', '10.0.0.50'],
  'daemonset-least-privilege.yaml': ['daemonset', '--vip', '10.0.0.50', '--least-privilege'],
  'services.yaml': ['services'],
} as const;

/** Packs the chart as `helm install` takes it, whatever the image of this release is called. */
export async function makeChart(release: Release): Promise<readonly string[]> {
  const file = `vipnat-chart-${release.version}.tgz`;
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-chart-'));
  try {
    const chart = join(folder, 'vipnat');
    cpSync(join(release.root, 'manifests/chart'), chart, { recursive: true });
    for (const [name, words] of Object.entries(bases)) {
      const text = await printManifest(release, words);
      writeFileSync(join(chart, 'base', name), text);
    }
    nameImage(release, chart);
    // Chart.yaml first, as helm package has it; by the pinned Node.js, whose zlib is the same everywhere.
    const tar = await packTar(release, folder, ['vipnat/Chart.yaml', ...listRest()]);
    writeFileSync(join(release.output, file), gzipSync(tar, { level: 9 }));
  } finally {
    rmSync(folder, { recursive: true });
  }
  return [file];
}

const listRest = () =>
  ['README.md', 'values.yaml', 'values.schema.json', 'base', 'crds', 'templates'].map(
    (name) => `vipnat/${name}`,
  );

/** Where the chart's values and their table name the image of a checkout, they name this release's. */
function nameImage(release: Release, chart: string): void {
  const { config } = JSON.parse(readFileSync(join(release.root, 'package.json'), 'utf8')) as {
    readonly config: { readonly image: string };
  };
  const { repository, tag } = readImageName(release, 'vipnat');
  for (const name of ['values.yaml', 'README.md']) {
    const path = join(chart, name);
    const text = readFileSync(path, 'utf8').replaceAll(config.image, repository);
    const isOther = name === 'values.yaml' && tag !== release.version;
    writeFileSync(path, isOther ? text.replace(/^ {2}tag: ''$/m, `  tag: '${tag}'`) : text);
  }
}
