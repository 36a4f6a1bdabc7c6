import type { Release } from '../settings/release.ts';
import { writeFileSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { provideNode } from '../executable/node.ts';
import { ReleaseError } from '../settings/error.ts';

/** The name of the file beside the executables. */
export function nameLicenses({ version }: Pick<Release, 'version'>): string {
  return `vipnat-${version}-licenses.txt`;
}

/** Writes every license of what an executable is made of. */
export async function writeLicenses(release: Release): Promise<readonly string[]> {
  const name = nameLicenses(release);
  writeFileSync(join(release.output, name), await renderExecutableLicenses(release));
  return [name];
}

/** The licenses of vipnat, of the packages in dist/ and of Node.js, which is the same for each processor. */
export async function renderExecutableLicenses(release: Release): Promise<string> {
  const node = await provideNode(release, 'amd64');
  return [
    render('vipnat', readFileSync(join(release.root, 'LICENSE'), 'utf8')),
    renderBundledLicenses(release),
    render('Node.js', readFileSync(join(node, 'LICENSE'), 'utf8')),
  ].join('\n');
}

interface BundledPackage {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly integrity: string;
}

/**
 * The texts that the licenses of the packages in dist/ ask to be handed on.
 * @throws ReleaseError when one came without its text.
 */
export function renderBundledLicenses({ root }: Pick<Release, 'root'>): string {
  const bundled = readJson(join(root, 'dist/packages.json')) as readonly BundledPackage[];
  const { packages } = readJson(join(root, 'package-lock.json')) as {
    readonly packages: Readonly<Record<string, { readonly integrity?: string }>>;
  };
  const integrityToFolder = new Map(
    Object.entries(packages).map(([folder, { integrity }]) => [integrity, folder]),
  );
  const texts = bundled.map(({ name, version, license, integrity }) => {
    const text = readLicenseText(join(root, integrityToFolder.get(integrity) ?? ''));
    if (text === null) {
      throw new ReleaseError(
        `${name} ${version} lacks the text of its license ${license}, so a release must not contain it`,
      );
    }
    return render(`${name} ${version}`, text);
  });
  return texts.join('\n');
}

function readJson(file: string): unknown {
  return JSON.parse(readFileSync(file, 'utf8')) as unknown;
}

function readLicenseText(folder: string): string | null {
  const name = readdirSync(folder)
    .sort()
    .find((file) => /^licen[cs]e(?:\.\w+)?$/i.test(file));
  return name === undefined ? null : readFileSync(join(folder, name), 'utf8');
}

function render(title: string, text: string): string {
  return `${'='.repeat(78)}\n${title}\n${'='.repeat(78)}\n\n${text.replaceAll('\r\n', '\n').trim()}\n`;
}
