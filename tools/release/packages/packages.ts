import { type Release, architectures, type Architecture } from '../settings/release.ts';
import { buildNfpm, locateNfpm } from '../../lab/build/build.ts';
import { makeExecutables } from '../executable/executable.ts';
import { packagers, type Packager, listContents } from './contents.ts';
import { mkdtempSync, writeFileSync, rmSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { describePackage, type PackageParts } from './describe.ts';
import { execa } from 'execa';

/** Makes the packages for Debian's and Red Hat's kin, with the executables in them. */
export async function makePackages(release: Release): Promise<readonly string[]> {
  await buildNfpm(release.say);
  await makeExecutables(release);
  const kinds = architectures.flatMap((architecture) =>
    packagers.map((packager) => ({ architecture, packager })),
  );
  return await Promise.all(
    kinds.map(({ architecture, packager }) => makePackage(release, architecture, packager)),
  );
}

async function makePackage(
  release: Release,
  architecture: Architecture,
  packager: Packager,
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-package-'));
  try {
    const parts = await lay(release, architecture, packager, folder);
    const config = join(folder, 'nfpm.yaml');
    // JSON is YAML.
    writeFileSync(config, JSON.stringify(describePackage(release, architecture, packager, parts)));
    const name = namePackage(release, architecture, packager);
    const target = join(release.output, name);
    await execa(locateNfpm(), ['package', '--config', config, '--packager', packager, '--target', target]);
    return name;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** As each kind of package is named. */
export function namePackage(
  { version }: Pick<Release, 'version'>,
  architecture: Architecture,
  packager: Packager,
): string {
  if (packager === 'deb') return `vipnat_${version}-1_${architecture}.deb`;
  return `vipnat-${version}-1.${{ amd64: 'x86_64', arm64: 'aarch64' }[architecture]}.rpm`;
}

/** Puts everything that nfpm takes into a folder. */
async function lay(
  release: Release,
  architecture: Architecture,
  packager: Packager,
  folder: string,
): Promise<PackageParts> {
  const contents = await listContents(release, architecture, packager);
  const files = contents.map((file, index) => {
    if (!Buffer.isBuffer(file.content)) return { ...file, source: file.content.file };
    const source = join(folder, String(index));
    writeFileSync(source, file.content);
    return { ...file, source };
  });
  const lays = (name: string) => layScript(release, `${packager}-${name}`, folder);
  const scripts = {
    postinstall: lays({ deb: 'postinst', rpm: 'post' }[packager]),
    preremove: lays({ deb: 'prerm', rpm: 'preun' }[packager]),
    postremove: lays({ deb: 'postrm', rpm: 'postun' }[packager]),
  };
  return { files, scripts };
}

/** What all scripts share stands in front of each. */
function layScript({ root }: Release, name: string, folder: string): string {
  const read = (file: string) =>
    readFileSync(join(root, 'tools/release/package-scripts', `${file}.sh`), 'utf8').replace(
      '# shellcheck shell=sh\n',
      '',
    );
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\nset -e\n\n${read('functions')}\n${read(name)}`);
  return path;
}
