import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import type { Balance } from '../../../../lib/dialect.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { parseSave } from '../../../../lib/iptables/rules.ts';
import { plan, planRemoval } from '../../../../agent/decide/plan.ts';
import { formatRemoval, formatRemovalCommands, formatRemovalJson } from '../../../../cli/commands/cleanup.ts';
import { sourceRouteCommand } from '../../../../lib/kernel/forwarding.ts';
import { test, expect } from '@jest/globals';

const vip = toEndpoint('10.0.0.50:6443');
const balances = [vip, toEndpoint('10.0.0.60:6443')].map((one): Balance => ({
  vip: one,
  route: { kind: 'translate', backends: [toEndpoint('10.0.0.11:6443')] },
  masquerade: 'own',
}));

const noPlan = { tables: [], transactions: [] };

const none = {
  ...{ plan: noPlan, routes: [], resets: [], vips: null, dryRun: true, problems: [] },
  balancer: { tables: [], chains: [], problems: [] },
  drain: { tables: [], files: [], problems: [] },
};

function readRules() {
  const kernel = new FakeKernel();
  const read = () => [parseSave({ family: 'ipv4', dialect: 'nft', text: kernel.show('ipv4', 'nft') })];
  for (const { input } of plan({ dialect: 'nft', balances }, read()).transactions)
    kernel.run('ipv4', 'nft', input);
  return read();
}

test('what was removed is a line for each table, with its chains, hooks and rules', () => {
  const all = plan({ dialect: 'nft', balances: [] }, readRules());
  expect(formatRemoval({ ...none, plan: all, dryRun: false })).toBe(
    'removed (filter, iptables-nft): 1 chain, 1 hook\nremoved (nat, iptables-nft): 4 chains, 3 hooks\n',
  );
  const one = planRemoval(readRules(), [vip]);
  expect(formatRemoval({ ...none, plan: one, vips: [vip] })).toBe(
    'would remove (filter, iptables-nft): 0 chains, 1 rule\nwould remove (nat, iptables-nft): 1 chain, 2 rules\n',
  );
});

test('where there is nothing, it says of what', () => {
  const wet = { ...none, dryRun: false };
  expect(formatRemoval(wet)).toBe('nothing of vipnat was here\n');
  const problems = [{ code: 'TOOL_FAILED', text: 'vipnat cannot read nat of iptables-nft' }] as const;
  expect(formatRemoval({ ...wet, problems })).toBe('');
  const narrowed = { ...none, vips: [vip] };
  expect(formatRemoval(narrowed)).toBe('nothing of 10.0.0.50:6443 is here\n');
  expect(formatRemovalCommands(narrowed, 'm1')).toBe('');
});

test('a dry run prints commands that can be pasted, and says that nothing was written', () => {
  const removal = { ...none, plan: planRemoval(readRules(), [vip]), vips: [vip] };
  const text = formatRemovalCommands(removal, 'm1');
  expect(text).toMatch(/^# m1 · removes the rules of 10\.0\.0\.50:6443\n/);
  expect(text).toMatch(/^iptables-nft -t nat -X VIPNAT-[0-9a-f]{10}$/m);
  expect(text).toMatch(/Nothing was written\.\n$/);
  const commands = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  expect(commands.filter((line) => !line.startsWith('iptables-nft -t '))).toEqual([]);
});

test('the last line of a dry run counts all that it prints', () => {
  const balancer = { ...none.balancer, tables: ['ip vipnat-lb', 'ip6 vipnat-lb'] };
  const removal = { ...none, balancer };
  expect(formatRemovalCommands(removal, 'm1').split('\n')).toEqual([
    '# m1 · removes everything of vipnat',
    'nft delete table ip vipnat-lb',
    'nft delete table ip6 vipnat-lb',
    '',
    '# 2 tables to delete. Nothing was written.',
    '',
  ]);
  const chains = ['iptables-nft'];
  const more = { ...none, plan: planRemoval(readRules(), [vip]), balancer: { ...balancer, chains } };
  expect(formatRemovalCommands(more, 'm1')).toMatch(
    /\n# \d+ changes to nat, \d+ to filter, 2 tables to delete, 1 chain to delete\. Nothing was written\.\n$/,
  );
});

test('a drain ends with everything: its file goes before its table', () => {
  const [tables, files] = [['inet vipnat-drain'], ['/var/lib/vipnat/drained']];
  const removal = { ...none, drain: { ...none.drain, tables, files } };
  expect(formatRemovalCommands(removal, 'm1').split('\n').slice(1)).toEqual([
    'rm -f /var/lib/vipnat/drained',
    'nft delete table inet vipnat-drain',
    '',
    '# 1 table to delete, 1 file to delete. Nothing was written.',
    '',
  ]);
  expect(formatRemoval(removal).split('\n')).toEqual([
    'would remove the table (inet vipnat-drain, nft)',
    'would remove the file /var/lib/vipnat/drained',
    '',
  ]);
  expect(JSON.parse(formatRemovalJson(removal, 'm1'))).toMatchObject({
    ...{ drainTables: tables, drainFiles: files },
  });
});

test('JSON has the tables and the transactions', () => {
  const removal = { ...none, plan: planRemoval(readRules(), [vip]), vips: [vip] };
  expect(JSON.parse(formatRemovalJson(removal, 'm1'))).toEqual({
    ...{ version: 1, node: 'm1', dryRun: true, vips: ['10.0.0.50:6443'] },
    removed: [
      { family: 'ipv4', backend: 'nft', table: 'filter', chains: 0, hooks: 0, rules: 1 },
      { family: 'ipv4', backend: 'nft', table: 'nat', chains: 1, hooks: 0, rules: 2 },
    ],
    transactions: [{ tool: 'iptables-nft-restore', family: 'ipv4', input: expect.stringContaining('*nat') }],
    routes: [],
    resets: [],
    ...{ balancerTables: [], balancerChains: [], drainTables: [], drainFiles: [] },
    problems: [],
  });
});

test('open connections that end are a warning, and an object each', () => {
  const resets = [{ vip, connections: 12 }];
  const removal = { ...none, plan: planRemoval(readRules(), [vip]), vips: [vip], resets };
  expect(formatRemoval(removal)).toContain(
    '\nwarning: the kernel would reset 12 open connections to 10.0.0.50:6443, and clients connect again. No other rules on this host translate connections\n',
  );
  expect(formatRemoval({ ...removal, dryRun: false, resets: [{ vip, connections: 1 }] })).toContain(
    'the kernel resets 1 open connection to',
  );
  expect(JSON.parse(formatRemovalJson(removal, 'm1'))).toMatchObject({
    resets: [{ vip: '10.0.0.50:6443', connections: 12 }],
  });
});

test('local routes are lines, commands and objects of their own', () => {
  const route = { address: '10.0.0.50', device: 'eth0', source: '10.0.0.11' };
  const command = sourceRouteCommand('remove', route);
  const routes = [{ kind: 'remove' as const, route, reason: 'it is left over', command }];
  const removal = { ...none, routes };
  expect(formatRemoval(removal)).toBe(
    'would remove the local route of 10.0.0.50 with the source 10.0.0.11\n',
  );
  expect(formatRemovalCommands(removal, 'm1')).toContain(`\n${command}\n`);
  expect(JSON.parse(formatRemovalJson(removal, 'm1'))).toMatchObject({ routes: [{ ...route, command }] });
});
