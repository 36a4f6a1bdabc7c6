import { type Release, architectures, type Architecture } from '../settings/release.ts';
import { nameExecutable } from '../executable/executable.ts';
import { writeFileSync, mkdtempSync, symlinkSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { provideNode } from '../executable/node.ts';
import { execa } from 'execa';

/** Writes what the npm package and each executable are made of, as CycloneDX. */
export async function writeSboms(release: Release): Promise<readonly string[]> {
  const names = [write(release, `vipnat-${release.version}-npm`, await renderSbom(release, null))];
  for (const architecture of architectures) {
    names.push(
      write(release, nameExecutable(release, architecture), await renderSbom(release, architecture)),
    );
  }
  return names;
}

function write({ output }: Release, artifact: string, text: string): string {
  const name = `${artifact}.cdx.json`;
  writeFileSync(join(output, name), text);
  return name;
}

/** The SBOM of dist/ with the Node.js of a processor's executable; of dist/ alone when it is null. */
export async function renderSbom(release: Release, architecture: Architecture | null): Promise<string> {
  const { root } = release;
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-sbom-'));
  try {
    if (architecture !== null) {
      symlinkSync(join(await provideNode(release, architecture), 'bin/node'), join(folder, 'node'));
    }
    const words = [join(root, 'scripts/sbom.mjs'), folder];
    const options = { cwd: root, stripFinalNewline: false };
    return (await execa(join(root, 'node_modules/.bin/node'), words, options)).stdout;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
