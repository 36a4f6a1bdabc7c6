import { type Release, type Architecture, readMaintainer } from '../settings/release.ts';
import { join } from 'node:path';
import { nameExecutable } from '../executable/executable.ts';
import { toPackagedSystemdFiles } from '../../../cli/manifest/agent.ts';
import { settingsFile, renderSettingsFile, settingsTemplate } from './settings-file.ts';
import { formatCompletion } from '../../../cli/completion.ts';
import { table } from '../../../cli/table.ts';
import { renderManualPage } from '../man/page.ts';
import { readChangelog } from '../documents/changelog.ts';
import { renderExecutableLicenses } from '../documents/licenses.ts';
import { renderSbom } from '../documents/sbom.ts';
import { gzipSync } from 'node:zlib';

/** The kinds of packages. */
export const packagers = ['deb', 'rpm'] as const;

/** One of packagers. */
export type Packager = (typeof packagers)[number];

/** A file of a package. */
export interface PackagedFile {
  /** From the root on. */
  readonly path: string;
  /** What it holds, or a file of this machine that is taken as it is. */
  readonly content: Buffer | { readonly file: string };
  /** Whether it is the administrator's: an update leaves it as it was changed. */
  readonly isConfiguration?: true;
}

const program = '/usr/bin/vipnat';

/** Where each distribution's zsh looks. */
const packagerToZshFolder = { deb: 'vendor-completions', rpm: 'site-functions' } as const;

/** Everything that a package has. The executable of its processor must have been made. */
export async function listContents(
  release: Release,
  architecture: Architecture,
  packager: Packager,
): Promise<PackagedFile[]> {
  const executable = join(release.output, nameExecutable(release, architecture));
  const texts: readonly (readonly [string, string])[] = [
    ...toPackagedSystemdFiles(program, settingsFile).map(({ path, text }) => [path, text] as const),
    ['/usr/share/bash-completion/completions/vipnat', await formatCompletion('bash', table)],
    [`/usr/share/zsh/${packagerToZshFolder[packager]}/_vipnat`, await formatCompletion('zsh', table)],
    ['/usr/share/fish/vendor_completions.d/vipnat.fish', await formatCompletion('fish', table)],
    ['/usr/share/man/man1/vipnat.1.gz', await renderManualPage(release)],
    ...(await listDocuments(release, architecture, packager)),
  ];
  return [
    { path: program, content: { file: executable } },
    toSettings(packager),
    ...texts.map(([path, text]) => ({ path, content: encode(path, text) })),
  ];
}

/**
 * rpm keeps what an administrator changed, and asks nothing. dpkg asks where both texts have changed, and fails where nobody
 * answers; so there the first installation copies a template.
 */
function toSettings(packager: Packager): PackagedFile {
  const content = Buffer.from(renderSettingsFile());
  return packager === 'deb'
    ? { path: settingsTemplate, content }
    : { path: settingsFile, content, isConfiguration: true };
}

async function listDocuments(
  release: Release,
  architecture: Architecture,
  packager: Packager,
): Promise<readonly (readonly [string, string])[]> {
  const folder = '/usr/share/doc/vipnat';
  return [
    [`${folder}/changelog.gz`, readChangelog(release.root)],
    [`${folder}/licenses.txt.gz`, await renderExecutableLicenses(release)],
    [`${folder}/sbom.cdx.json.gz`, await renderSbom(release, architecture)],
    ...(packager === 'deb'
      ? ([
          [`${folder}/changelog.Debian.gz`, renderDebianChangelog(release)],
          [`${folder}/copyright`, copyright],
        ] as const)
      : []),
  ];
}

/** gzip's head has neither name nor time here. */
function encode(path: string, text: string): Buffer {
  return path.endsWith('.gz') ? gzipSync(text, { level: 9 }) : Buffer.from(text);
}

/** As Debian's policy wants it, with the time of the commit. */
function renderDebianChangelog(release: Release): string {
  const { version, epoch } = release;
  const date = new Date(epoch * 1000).toUTCString().replace('GMT', '+0000');
  const lines = [
    '  * What changed: /usr/share/doc/vipnat/changelog.gz',
    '',
    ` -- ${formatMaintainer(release)}  ${date}`,
    '',
  ];
  return [`vipnat (${version.replace('-', '~')}-1) unstable; urgency=medium`, '', ...lines].join('\n');
}

/** Who answers for the packages. A package names someone: where nobody is known, it has nobody's mail address. */
export function formatMaintainer(release: Pick<Release, 'root'>): string {
  const { name, email } = readMaintainer(release) ?? {
    name: 'The vipnat authors',
    email: 'vipnat@localhost.invalid',
  };
  return `${name} <${email}>`;
}

const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: vipnat
Comment: /usr/bin/vipnat has Node.js and npm packages in it; /usr/share/doc/vipnat/licenses.txt.gz has their licenses,
 /usr/share/doc/vipnat/sbom.cdx.json.gz their names, versions and checksums.

Files: *
Copyright: The vipnat authors
License: Apache-2.0
 On Debian systems the license is in /usr/share/common-licenses/Apache-2.0.
`;
