import { describe, expect, test } from '@jest/globals';
import { toolFailed, toolMissing, toolTimedOut } from '../../../../../lib/kernel/tools/tool-errors.ts';

describe('what a failing tool becomes', () => {
  test.each([
    [
      'iptables-nft-restore v1.8.9 (nf_tables): \nline 2: CHAIN_DEL failed (Device or resource busy): chain AAA\n',
      'line 2: CHAIN_DEL failed (Device or resource busy): chain AAA',
    ],
    ['iptables-restore: line 3 failed\n', 'line 3 failed'],
    [
      '# Warning: iptables-legacy tables present, use iptables-legacy-save to see them\niptables-nft-restore: line 3 failed: Bad rule (does a matching rule exist in that chain?).\n',
      'line 3 failed: Bad rule (does a matching rule exist in that chain?).',
    ],
    [
      "iptables-restore v1.8.9 (legacy): Couldn't load target `NOPE':No such file or directory\n\nError occurred at line: 2\n",
      "Couldn't load target `NOPE':No such file or directory",
    ],
    ['', 'it gave no reason'],
  ])('%j: the message has the tool, the exit status and the reason', (stderr, reason) => {
    const error = toolFailed({ tool: 'iptables-nft-restore', exitCode: 4, stderr, input: '*nat\nCOMMIT\n' });
    expect(error.code).toBe('TOOL_FAILED');
    expect(error.message).toBe(`iptables-nft-restore failed with exit status 4: ${reason}`);
    expect(error.details).toContain('*nat\nCOMMIT');
  });

  test.each([
    ['iptables-legacy-restore', 'iptable_nat'],
    ['ip6tables-legacy-restore', 'ip6table_nat'],
  ])('a table that the kernel lacks for %s is told with the way out', (tool, module) => {
    const stderr = `${tool.replace('-legacy', '')} v1.8.9 (legacy): ${tool.replace('-legacy', '')}: unable to initialize table 'nat'\n\nError occurred at line: 1\n`;
    expect(toolFailed({ tool, exitCode: 2, stderr, input: '*nat\nCOMMIT\n' })).toMatchObject({
      code: 'TOOL_FAILED',
      message: `${tool} failed with exit status 2: unable to initialize table 'nat': this kernel has no iptables-legacy, or its module is not loaded. Leave --iptables out, or load ${module} on the host`,
    });
  });

  test.each([
    'iptables-nft-save v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\n',
    "Fatal: can't open lock file /run/xtables.lock: Permission denied\n",
    'Operation not permitted (you must be root)\nnetlink: Error: cache initialization failed: Operation not permitted\n',
  ])('%j is a missing right, with the way out', (stderr) => {
    const error = toolFailed({ tool: 'nft', exitCode: 1, stderr, input: '' });
    expect(error.code).toBe('TOOL_NOT_PERMITTED');
    expect(error.message).toMatch(/root or with CAP_NET_ADMIN and CAP_NET_RAW$/);
  });

  test.each([
    ['iptables-legacy-save', 'iptables'],
    ['ip6tables-nft-restore', 'iptables'],
    ['nft', 'nftables'],
    ['inotifywait', 'inotify-tools'],
  ])('a missing %s names the package %s', (tool, package_) => {
    expect(toolMissing(tool)).toMatchObject({
      code: 'TOOL_MISSING',
      message: expect.stringContaining(`apt-get install ${package_})`),
    });
  });

  test('a tool that was killed says after how long', () => {
    expect(toolTimedOut('nft', 10_000)).toMatchObject({
      code: 'TOOL_TIMED_OUT',
      message: 'nft had not ended after 10 s and was killed',
    });
  });
});
