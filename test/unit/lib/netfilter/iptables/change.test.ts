import { execFileSync } from 'node:child_process';
import { describe, expect, test } from '@jest/globals';
import {
  type Change,
  toCommandArguments,
  toRestoreLines,
} from '../../../../../lib/netfilter/iptables/change.ts';

const creation: Change = { kind: 'reset-chain', chain: 'VIPNAT', exists: false };
const flush: Change = { kind: 'reset-chain', chain: 'VIPNAT', exists: true };
const hook: Change = { kind: 'insert', chain: 'PREROUTING', rule: '-j VIPNAT' };
const rule: Change = { kind: 'append', chain: 'VIPNAT', rule: '-j RETURN' };
const deletion: Change = { kind: 'delete', chain: 'OUTPUT', rule: '-j VIPNAT-OLD' };
const end: Change = { kind: 'delete-chain', chain: 'VIPNAT-OLD' };

test('changes to one table are one part of a restore script, from its name to COMMIT', () => {
  expect(toRestoreLines('nat', [flush, rule, deletion, hook, end])).toEqual([
    '*nat',
    ':VIPNAT - [0:0]',
    '-A VIPNAT -j RETURN',
    '-D OUTPUT -j VIPNAT-OLD',
    '-I PREROUTING -j VIPNAT',
    '-X VIPNAT-OLD',
    'COMMIT',
  ]);
});

describe('the same changes as commands', () => {
  test.each([
    [creation, '-t nat -N VIPNAT'],
    [flush, '-t nat -F VIPNAT'],
    [rule, '-t nat -A VIPNAT -j RETURN'],
    [hook, '-t nat -I PREROUTING -j VIPNAT'],
    [deletion, '-t nat -D OUTPUT -j VIPNAT-OLD'],
    [end, '-t nat -X VIPNAT-OLD'],
  ])('%j', (change, command) => {
    expect(toCommandArguments('nat', change)).toBe(command);
  });

  test.each(['"vipnat:$(reboot)"', '"vipnat:`reboot`"', 'vipnat:;reboot', `"vipnat:'$(reboot)'"`])(
    "what a stranger's rule says is kept from the shell: %s",
    (comment) => {
      const stranger: Change = { kind: 'delete', chain: 'OUTPUT', rule: `--comment ${comment} -j VIPNAT` };
      const output = execFileSync('bash', ['-c', `printf '%s\\0' ${toCommandArguments('nat', stranger)}`], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const word = comment.replaceAll('"', '');
      expect(output.split('\0').slice(2, -1)).toEqual(['-D', 'OUTPUT', '--comment', word, '-j', 'VIPNAT']);
    },
  );

  test('brackets are kept from the shell', () => {
    const change: Change = {
      kind: 'append',
      chain: 'VIPNAT',
      rule: '-j DNAT --to-destination [fd00::11]:6443',
    };
    expect(toCommandArguments('nat', change)).toBe(
      "-t nat -A VIPNAT -j DNAT --to-destination '[fd00::11]:6443'",
    );
  });
});
