import { type Release, versionForm } from '../settings/release.ts';
import { readImageName } from '../settings/image-names.ts';
import { ReleaseError } from '../settings/error.ts';
import { readFileSync, writeFileSync, globSync } from 'node:fs';
import { join } from 'node:path';

/** What the documents and manifests of a release name. */
export interface PaperNames {
  readonly version: string;
  /** The image of a checkout, without its tag: `config.image` of package.json. */
  readonly checkoutImage: string;
  /** The image of the release: its registry and path. */
  readonly repository: string;
  readonly tag: string;
}

/** Reads these names: of package.json, and of RELEASE_IMAGE where it is set. */
export function readPaperNames(release: Pick<Release, 'root' | 'version'>): PaperNames {
  const { config } = readJson(release.root, 'package.json') as {
    readonly config: { readonly image: string };
  };
  return { version: release.version, checkoutImage: config.image, ...readImageName(release, 'vipnat') };
}

/** A file or an image of some version: `vipnat-0.1.0-linux-amd64`, `vipnat_0.1.0-1_amd64.deb`, `registry.example/vipnat:0.1.0`. */
const named = new RegExp(`(?<![\\w-])(vipnat(?:-[a-z]+)*[-_:])${versionForm}`, 'g');

/** A document or manifest of a checkout, as a release has it: files and images have the names of this release. */
export function toReleasePaper(text: string, names: PaperNames): string {
  const { version, checkoutImage, repository, tag } = names;
  return text
    .replace(named, `$1${version}`)
    .replaceAll(`${checkoutImage}:${version}`, `${repository}:${tag}`)
    .replaceAll(`${checkoutImage}-keepalived:${version}`, `${repository}-keepalived:${tag}`);
}

/** Writes every document and manifest in a folder anew, as a release has it. */
export function fillPapers(folder: string, names: PaperNames): void {
  for (const file of globSync('**/*.{md,yaml}', { cwd: folder })) {
    const path = join(folder, file);
    writeFileSync(path, toReleasePaper(readFileSync(path, 'utf8'), names));
  }
}

/** What a document of a release must not say, because the release makes it false. */
const checkoutSentence =
  /vipnat\s+is\s+not\s+published|no\s+registry\s+has|cannot\s+name\s+an\s+address|no\s+version\s+(?:with\s+Services\s+)?has\s+been\s+released/i;

/**
 * Checks that the checkout's files agree with package.json, as far as packing does not write them anew.
 * @throws ReleaseError that names each file that does not, and what writes it.
 */
export function requirePapers({ root, version }: Pick<Release, 'root' | 'version'>): void {
  const stale = [...listStale(root, version), ...listCheckoutSentences(root)];
  if (stale.length > 0)
    throw new ReleaseError(`the checkout is not ready for ${version}:\n${stale.join('\n')}`);
}

/** The version of an image, or of the chart. */
const madeVersion = /^\s*(?:image: .*vipnat(?:-keepalived)?:|version: |appVersion: )(\d\S*)$/gm;

function listStale(root: string, version: string): readonly string[] {
  const lock = readJson(root, 'package-lock.json') as {
    readonly version: string;
    readonly packages: Readonly<Record<string, { readonly version?: string }>>;
  };
  const isLocked = lock.version === version && lock.packages['']?.version === version;
  const manifests = globSync('manifests/{*,chart/Chart}.yaml', { cwd: root }).sort();
  const isStale = (file: string) =>
    [...readText(root, file).matchAll(madeVersion)].some(([, found]) => found !== version);
  return [
    ...(isLocked ? [] : ['package-lock.json: npm install --package-lock-only']),
    ...manifests.filter(isStale).map((file) => `${file}: scripts/manifests`),
  ];
}

function listCheckoutSentences(root: string): readonly string[] {
  const files = globSync(['*.md', 'docs/*.md', 'manifests/**/*.{md,yaml,txt}'], { cwd: root }).sort();
  return files.flatMap((file) => {
    const [sentence] = checkoutSentence.exec(readText(root, file)) ?? [];
    return sentence === undefined ? [] : [`${file}: it says "${sentence.replace(/\s+/g, ' ')}"`];
  });
}

const readText = (root: string, file: string) => readFileSync(join(root, file), 'utf8');

const readJson = (root: string, file: string): unknown => JSON.parse(readText(root, file)) as unknown;
