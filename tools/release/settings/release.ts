import { fileURLToPath } from 'node:url';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ReleaseError } from './error.ts';
import { execaSync } from 'execa';

/** The processors that a release is for, by Debian's and Go's names. */
export const architectures = ['amd64', 'arm64'] as const;

/** One of architectures. */
export type Architecture = (typeof architectures)[number];

/**
 * A version, as a regular expression: what npm, Debian, Red Hat, Helm and a registry all take, with `~` in place of `-` in the
 * packages of the two. 0.1.0-1 would be a package's revision.
 */
export const versionForm = String.raw`\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)\.\d+)?`;

/** What every step of a release is given. Nothing in what a step makes depends on anything else but the checkout's files. */
export interface Release {
  /** The checkout. */
  readonly root: string;
  /** As package.json has it: the only place of the version. */
  readonly version: string;
  /** The commit, with `-dirty` where the checkout differs from it; `unknown` outside git. */
  readonly revision: string;
  /** Seconds since 1970: the time of everything that is made. Tools read it from SOURCE_DATE_EPOCH, which is set to it. */
  readonly epoch: number;
  /** Where the files go. It exists. */
  readonly output: string;
  /** The folder whose files stay beside what the steps make; none when the release is made whole. */
  readonly kept?: string | null;
  /** A line for the person who waits. */
  readonly say: (line: string) => void;
}

/** The checkout. */
export const rootFolder = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '');

/** Where a release goes when nothing else is asked for, from the checkout on. */
export const defaultOutput = 'dist-release';

/**
 * Reads what the checkout says of the release.
 * @throws ReleaseError when the time of the commit is not known, or the version is not of versionForm.
 */
export function readRelease(output: string, say: Release['say']): Release {
  const { version } = JSON.parse(readFileSync(join(rootFolder, 'package.json'), 'utf8')) as {
    version: string;
  };
  if (!new RegExp(`^${versionForm}$`).test(version)) {
    throw new ReleaseError(
      `package.json has the version ${version}, which not every package can have. Examples: 0.1.0, 0.1.0-rc.1`,
    );
  }
  const revision = readGit(['describe', '--always', '--abbrev=40', '--dirty', '--exclude', '*']) ?? 'unknown';
  return { root: rootFolder, version, revision, epoch: readEpoch(), output: resolve(output), say };
}

/**
 * Where the sources are, as RELEASE_REPOSITORY names them. Null where it is not set: then no file names a place that may not be there.
 */
export function readRepository(): string | null {
  const { RELEASE_REPOSITORY: url = '' } = process.env;
  return url === '' ? null : url;
}

/** A person or a project with an address for mail. */
export interface Maintainer {
  readonly name: string;
  readonly email: string;
}

/**
 * Who answers for the packages: `Name <address>` of RELEASE_MAINTAINER, or else `author` of package.json. Null where neither is set.
 * @throws ReleaseError when it has no such form.
 */
export function readMaintainer({ root }: Pick<Release, 'root'>): Maintainer | null {
  const { author = '' } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { author?: string };
  const { RELEASE_MAINTAINER: given = '' } = process.env;
  const text = given === '' ? author : given;
  if (text === '') return null;
  const [, name, email] = /^([^<>\n]*[^<>\s]) <([^<>\s]+@[^<>\s]+)>$/.exec(text) ?? [];
  if (name === undefined || email === undefined)
    throw new ReleaseError(
      `the maintainer is ${text}. Example: RELEASE_MAINTAINER='A. Person <a@mail.example>'`,
    );
  return { name, email };
}

function readEpoch(): number {
  const given = process.env['SOURCE_DATE_EPOCH'] ?? readGit(['log', '-1', '--format=%ct']);
  if (given !== null && /^\d{1,10}$/.test(given)) return Number(given);
  const reason = given === null ? 'the checkout has no commit' : `SOURCE_DATE_EPOCH is ${given}`;
  throw new ReleaseError(`${reason}, but the files need a time. Example: SOURCE_DATE_EPOCH=1767225600`);
}

function readGit(words: readonly string[]): string | null {
  const { exitCode, stdout } = execaSync('git', ['-C', rootFolder, ...words], { reject: false });
  return exitCode === 0 ? stdout.trim() : null;
}
