import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { ReleaseError } from '../settings/error.ts';
import { architectures, readRepository, type Release } from '../settings/release.ts';

const file = 'krew-vipnat.yaml';

/**
 * Writes the manifest by which krew, kubectl's package manager, installs `kubectl vipnat`. Each platform gets the npm package, which needs
 * the Node.js of the person. Nothing without RELEASE_REPOSITORY, because krew has to know an address.
 */
export function writeKrewManifest(release: Release): readonly string[] {
  const url = readRepository();
  if (url === null) return [];
  writeFileSync(join(release.output, file), toKrewManifest(release, url, readArchive(release)));
  return [file];
}

const nameArchive = ({ version }: Pick<Release, 'version'>) => `vipnat-${version}.tgz`;

/** The npm package of this run, or of an earlier one. */
function readArchive(release: Release): Buffer {
  const name = nameArchive(release);
  const paths = [release.output, release.kept ?? release.output].map((folder) => join(folder, name));
  const path = paths.find((one) => existsSync(one));
  if (path === undefined) throw new ReleaseError(`${name} is not there. Example: scripts/release npm krew`);
  return readFileSync(path);
}

/** Source: krew.googlecontainertools.github.com/v1alpha2, Plugin. Pure. */
export function toKrewManifest(release: Pick<Release, 'version'>, url: string, archive: Buffer): string {
  const { version } = release;
  const platforms = ['linux', 'darwin'].flatMap((os) =>
    architectures.map((arch) => ({
      selector: { matchLabels: { os, arch } },
      uri: `${url}/releases/download/v${version}/${nameArchive(release)}`,
      sha256: createHash('sha256').update(archive).digest('hex'),
      files: [{ from: 'package/*', to: '.' }],
      bin: 'dist/vipnat.js',
    })),
  );
  return stringify({
    apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
    kind: 'Plugin',
    metadata: { name: 'vipnat' },
    spec: {
      version: `v${version}`,
      homepage: url,
      shortDescription: 'Show virtual IPs and load balancer Services of vipnat',
      description:
        'Shows whether the virtual IP of the API is balanced on all masters, why a Service has no address or does not work, and which nodes hold addresses.',
      caveats: 'This plugin needs Node.js 22.19 or later in PATH.',
      platforms,
    },
  });
}
