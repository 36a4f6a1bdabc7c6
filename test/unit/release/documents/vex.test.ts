import { expect, test } from '@jest/globals';
import { renderVex } from '../../../../tools/release/documents/vex.ts';

test('a finding is a statement of OpenVEX, and only that of not_affected has a justification', () => {
  const [notes, justification] = ['read by hand', 'component_not_present'] as const;
  const text = renderVex({ version: '1.2.0', epoch: 0 }, [
    { vulnerability: 'CVE-1', status: 'not_affected', justification, notes },
    { vulnerability: 'CVE-2', status: 'affected', action: 'upgrade', notes },
    { vulnerability: 'CVE-3', status: 'fixed', notes },
  ]);
  const products = [{ '@id': 'pkg:generic/vipnat@1.2.0' }];
  const shared = { products, status_notes: notes };
  expect(JSON.parse(text)).toEqual({
    '@context': 'https://openvex.dev/ns/v0.2.0',
    '@id': expect.stringMatching(/^https:\/\/openvex\.dev\/docs\/public\/vex-[0-9a-f]{64}$/),
    author: 'The vipnat authors',
    timestamp: '1970-01-01T00:00:00.000Z',
    version: 1,
    statements: [
      { ...shared, vulnerability: { name: 'CVE-1' }, status: 'not_affected', justification },
      { ...shared, vulnerability: { name: 'CVE-2' }, status: 'affected', action_statement: 'upgrade' },
      { ...shared, vulnerability: { name: 'CVE-3' }, status: 'fixed' },
    ],
  });
});
