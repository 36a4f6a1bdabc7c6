import type { Release } from '../settings/release.ts';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** What somebody found out about a vulnerability that scanners find in a release. */
type Finding = {
  /** CVE-2026-1 or the like. */
  readonly vulnerability: string;
  /** What was checked. */
  readonly notes: string;
} & (
  | { readonly status: 'fixed' | 'under_investigation' }
  /** What a user has to do. */
  | { readonly status: 'affected'; readonly action: string }
  | { readonly status: 'not_affected'; readonly justification: Justification }
);

/** OpenVEX's words for the reason of `not_affected`. */
type Justification =
  | 'component_not_present'
  | 'vulnerable_code_not_present'
  | 'vulnerable_code_not_in_execute_path'
  | 'vulnerable_code_cannot_be_controlled_by_adversary'
  | 'inline_mitigations_already_exist';

/** One row for each that was checked, in this version. A row that nobody checked does more harm than none. */
const findings: readonly Finding[] = [];

/**
 * Writes, beside the SBOMs, which known vulnerabilities concern the release, as OpenVEX 0.2.0. Without a finding, it writes nothing: the
 * format has no document without a statement.
 */
export function writeVex(release: Release): readonly string[] {
  if (findings.length === 0) return [];
  const name = `vipnat-${release.version}.openvex.json`;
  writeFileSync(join(release.output, name), renderVex(release, findings));
  return [name];
}

/** The document: the same findings of the same commit give the same bytes. */
export function renderVex(
  { version, epoch }: Pick<Release, 'version' | 'epoch'>,
  rows: readonly Finding[],
): string {
  const products = [{ '@id': `pkg:generic/vipnat@${version}` }];
  const content = {
    author: 'The vipnat authors',
    timestamp: new Date(epoch * 1000).toISOString(),
    version: 1,
    statements: rows.map((row) => toStatement(row, products)),
  };
  const id = createHash('sha256')
    .update(JSON.stringify([version, content]))
    .digest('hex');
  const head = {
    '@context': 'https://openvex.dev/ns/v0.2.0',
    '@id': `https://openvex.dev/docs/public/vex-${id}`,
  };
  return `${JSON.stringify({ ...head, ...content }, null, 2)}\n`;
}

function toStatement(finding: Finding, products: readonly object[]): object {
  const { vulnerability, notes, status } = finding;
  return {
    vulnerability: { name: vulnerability },
    products,
    status,
    status_notes: notes,
    ...(status === 'not_affected' && { justification: finding.justification }),
    ...(status === 'affected' && { action_statement: finding.action }),
  };
}
