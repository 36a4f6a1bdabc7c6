import { test, expect } from '@jest/globals';
import { formatDrain, formatUndrain } from '../../../../cli/commands/drain.ts';

test('a dry run of drain prints each change as a command, the file with quotes where it needs them', () => {
  expect(formatDrain('/var/lib/my state/drained', [443, 6443], '/run/vipnat').split('\n')).toEqual([
    '# drain would do this. Nothing was done.',
    '',
    "date -u +%FT%T.000Z > '/var/lib/my state/drained'",
    "nft -f - <<'EOF'",
    'add table inet vipnat-drain',
    'delete table inet vipnat-drain',
    'table inet vipnat-drain {',
    '  chain input {',
    '    type filter hook input priority -10; policy accept;',
    '    tcp dport 443 tcp sport 600-1023 reject with tcp reset',
    '    tcp dport 6443 tcp sport 600-1023 reject with tcp reset',
    '  }',
    '}',
    'EOF',
    '# if another master can hold them, keepalived gives the virtual IPs away',
    expect.stringMatching(/^echo 1 > \/run\/vipnat\/\S+$/),
    '',
  ]);
});

test('where no apiserver of this host is known, it prints no table that would refuse nothing', () => {
  const text = formatDrain('/var/lib/vipnat/drained', [], '/run/vipnat');
  expect(text).not.toContain('nft -f');
  expect(text).toContain('# no apiserver of this host is known yet: the agent writes the table');
});

test('a dry run of undrain removes the file before the table, which the agent would write again', () => {
  expect(formatUndrain('/var/lib/vipnat/drained').split('\n')).toEqual([
    '# undrain would do this. Nothing was done.',
    '',
    'rm -f /var/lib/vipnat/drained',
    'nft delete table inet vipnat-drain',
    '',
  ]);
});
