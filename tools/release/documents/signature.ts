import type { Release } from '../settings/release.ts';
import { ReleaseError } from '../settings/error.ts';
import { signatureFile, sumsFile } from './sums.ts';
import { execaSync } from 'execa';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';

/** The principal that signs and the namespace of the signature, as SECURITY.md's line names them. */
const signer = 'vipnat-release';

/** Checks the signature without a network. `vipnat-signers` has the lines of SECURITY.md that begin with `vipnat-release namespaces=`. */
export const verifyCommand = `ssh-keygen -Y verify -f vipnat-signers -I ${signer} -n ${signer} -s ${signatureFile} <${sumsFile}`;

/** The file of the private key that signs, or null: nobody signs a release that is made from a checkout. */
export function findSigningKey(): string | null {
  const { RELEASE_SIGNING_KEY: key = '' } = process.env;
  return key === '' ? null : key;
}

/**
 * Signs the sums of a folder, where RELEASE_SIGNING_KEY names a key; without one, it removes the signature of other sums.
 * @throws ReleaseError when the key cannot sign, or SECURITY.md does not have its public half: nobody could verify it.
 */
export function signSums({ root }: Pick<Release, 'root'>, folder: string): void {
  rmSync(join(folder, signatureFile), { force: true });
  const key = findSigningKey();
  if (key === null) return;
  const sums = join(folder, sumsFile);
  runKeygen(['-Y', 'sign', '-q', '-f', key, '-n', signer, sums]);
  try {
    verify(root, folder);
  } catch (error) {
    rmSync(join(folder, signatureFile), { force: true });
    throw error;
  }
}

function verify(root: string, folder: string): void {
  const lines =
    readFileSync(join(root, 'SECURITY.md'), 'utf8').match(/^vipnat-release namespaces=.*$/gm) ?? [];
  const keys = mkdtempSync(join(tmpdir(), 'vipnat-signers-'));
  try {
    const file = join(keys, 'vipnat-signers');
    writeFileSync(file, lines.map((line) => `${line}\n`).join(''));
    const signature = join(folder, signatureFile);
    const words = ['-Y', 'verify', '-f', file, '-I', signer, '-n', signer, '-s', signature];
    runKeygen(words, readFileSync(join(folder, sumsFile), 'utf8'));
  } finally {
    rmSync(keys, { recursive: true });
  }
}

function runKeygen(words: readonly string[], input = ''): void {
  const { exitCode, stdout, stderr, shortMessage } = execaSync('ssh-keygen', words, { input, reject: false });
  if (exitCode === 0) return;
  const reason = [stderr, stdout, shortMessage].find(Boolean);
  const line = `${signer} namespaces="${signer}" TYPE KEY`;
  throw new ReleaseError(
    `RELEASE_SIGNING_KEY cannot sign for the key in SECURITY.md (${line}): ${reason ?? 'no reason'}`,
  );
}
