import { describe, expect, test } from '@jest/globals';
import { findCommandProblems } from '../../../../cli/grammar/command-rules.ts';
import { type ConfiguredCommand } from '../../../../cli/grammar/invocation.ts';
import { type Flags } from '../../../../config/flags.ts';
import { readConfig } from '../../../../config/load.ts';

const run = (options: object): ConfiguredCommand => ({
  name: 'run',
  options: { once: false, dryRun: false, ...options },
});
const offline: ConfiguredCommand = {
  name: 'plan',
  options: { format: 'commands', json: false, family: null, offline: true },
};
const problemsOf = async (command: ConfiguredCommand, flags: Flags) =>
  findCommandProblems(command, await readConfig({ flags, environment: {}, file: undefined }));

const noVip = 'no virtual IP given. Example: --vip 10.0.0.50:6443';

describe('a VIP', () => {
  test.each([run({}), offline, { name: 'check', options: { json: false } } as const])(
    'is needed by %j',
    async (command) => {
      expect(await problemsOf(command, { proxyMode: 'iptables' })).toEqual([noVip]);
    },
  );

  test('is not needed by cleanup', async () => {
    expect(
      await problemsOf({ name: 'cleanup', options: { dryRun: false, json: false, isNarrowed: false } }, {}),
    ).toEqual([]);
  });

  test('that is there but cannot be read is not called missing too', async () => {
    expect(await problemsOf(run({}), { vip: ['nonsense'] })).toEqual([]);
  });
});

test('run --once --dry-run contradicts itself', async () => {
  expect(await problemsOf(run({ once: true, dryRun: true }), { vip: ['10.0.0.50'] })).toEqual([
    expect.stringMatching(/^--once and --dry-run exclude each other/),
  ]);
  expect(await problemsOf(run({ once: true }), { vip: ['10.0.0.50'] })).toEqual([]);
  expect(await problemsOf(run({ dryRun: true }), { vip: ['10.0.0.50'] })).toEqual([]);
});

describe('plan --offline', () => {
  const clusterIp = 'the ClusterIP with --offline: add --cluster-ip 10.96.0.1';
  const endpoints = 'the apiservers with --offline: add --endpoints 10.0.0.11:6443,10.0.0.12:6443';

  test.each<[Flags, string[]]>([
    [{}, ["--offline needs kube-proxy's proxy mode, because it reads nothing: add --proxy-mode iptables"]],
    [{ proxyMode: 'iptables' }, []],
    [{ proxyMode: 'ipvs' }, [`ipvs needs ${clusterIp}`]],
    [{ proxyMode: 'ipvs', clusterIp: ['10.96.0.1'] }, []],
    [{ proxyMode: 'nftables' }, [`nftables needs ${endpoints}`]],
    [{ proxyMode: 'none' }, [`balancing without kube-proxy needs ${endpoints}`]],
    [{ proxyMode: 'none', endpoints: ['10.0.0.11:6443'] }, []],
    [{ proxyMode: 'iptables', mode: 'direct' }, [`direct needs ${endpoints}`]],
    [{ proxyMode: 'iptables', mode: 'cluster-ip' }, [`cluster-ip needs ${clusterIp}`]],
    [{ proxyMode: 'ipvs', mode: 'direct', endpoints: ['10.0.0.11:6443'] }, []],
  ])('with %j lacks %j', async (flags, problems) => {
    expect(await problemsOf(offline, { vip: ['10.0.0.50'], ...flags })).toEqual(problems);
  });

  test('needs the ClusterIP of each family that has a VIP', async () => {
    const flags = { vip: ['10.0.0.50', 'fd00::50'], proxyMode: 'ipvs', clusterIp: ['10.96.0.1'] };
    expect(await problemsOf(offline, flags)).toEqual([
      'ipvs needs the ClusterIP with --offline: add --cluster-ip fd00:10:96::1',
    ]);
  });

  test('lacks nothing that was given wrong: that problem is told already', async () => {
    expect(await problemsOf(offline, { vip: ['10.0.0.50'], proxyMode: 'iptable' })).toEqual([]);
    expect(await problemsOf(offline, { vip: ['10.0.0.50'], proxyMode: 'ipvs', clusterIp: ['x'] })).toEqual(
      [],
    );
  });
});
