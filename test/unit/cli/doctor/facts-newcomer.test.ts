import { describe, test, expect } from '@jest/globals';
import {
  meet,
  vip,
  flags,
  withInstance,
  keepalived,
  readHost,
  levelsOf,
  masterFiles,
} from '../../../support/doctor/newcomer-host.ts';
import { filePaths } from '../../../../cli/doctor/facts.ts';
import { kubeconfig } from '../../../support/doctor/well-host.ts';

describe('on a host with nothing', () => {
  test('nothing is wrong, and what is missing is only not there yet', async () => {
    const { stage, troubles, pending } = await meet();
    expect({ stage, troubles }).toEqual({ stage: 'before-installation', troubles: [] });
    for (const code of [
      ...['forwarding-off', 'vip-nowhere', 'keepalived-not-running', 'no-apiserver-known'],
      ...['apiserver-down', 'kubeconfig-at-vip', 'agent-not-running', 'rules-differ'],
    ])
      expect(pending).toContain(code);
  });

  test('the steps lead from keepalived by the cluster to the agent', async () => {
    const { titles, commands, comments } = await meet();
    expect(titles.map((title) => title.replace(/[.,:].*$/, ''))).toEqual([
      'Have keepalived hold 10',
      'Switch IP forwarding on',
      'Create the cluster',
      'Preview what vipnat would write here',
      'Start the agent on each control-plane node',
      'Check that the VIP is balanced',
    ]);
    expect(comments.join('\n')).toContain(`kubeadm init --control-plane-endpoint ${vip}:6443`);
    expect(comments.join('\n')).toContain('shutdown delay');
    expect(commands.at(0)).toMatch(/^mkdir -p \/etc\/keepalived/);
    expect(commands.slice(-3)).toEqual([
      `vipnat plan ${flags}`,
      `vipnat manifest daemonset ${flags} > vipnat.yaml`,
      `vipnat status ${flags}`,
    ]);
  });

  test('where the unit of the agent is installed, it is started by it', async () => {
    const { commands } = await meet({ units: new Set(['vipnat', 'keepalived']) });
    expect(commands).toContain('systemctl enable --now vipnat');
  });

  test('a keepalived that holds the VIP is no step any more', async () => {
    const { titles, troubles } = await meet({
      ...withInstance,
      processes: { value: [keepalived] },
      assessment: { value: await readHost([], [vip]) },
    });
    expect(troubles).toEqual([]);
    expect(titles[0]).toMatch(/^Switch IP forwarding on/);
  });

  test('tools that are missing are named with their packages, and come first', async () => {
    const { stage, troubles, titles } = await meet({
      tools: new Set(['apt-get']),
      assessment: { unknown: 'iptables-nft-save is not in PATH' },
    });
    expect(stage).toBe('before-installation');
    expect(troubles).toMatchObject([
      { code: 'no-firewall-tool', remedy: ['apt-get install iptables'] },
      { code: 'host-unreadable', remedy: ['apt-get install iptables'] },
    ]);
    expect(titles).toEqual(['Fix the findings above, then run vipnat doctor again.']);
  });

  test('without rights nothing is concluded, but how to look', async () => {
    const { stage, troubles, next } = await meet({
      rights: { value: { hasNetAdmin: false, hasNetRaw: false } },
      assessment: { unknown: 'iptables-nft-save is not permitted' },
    });
    expect({ stage, next }).toEqual({ stage: 'unknown', next: [] });
    expect(troubles.slice(0, 2)).toMatchObject([
      { code: 'not-permitted', remedy: [`sudo vipnat doctor ${flags}`] },
      { code: 'host-unreadable', remedy: [`sudo vipnat doctor ${flags}`] },
    ]);
  });
});

describe('a virtual IP that does not fit', () => {
  test('as it is in no network of this host, is said, and nothing is built on it', async () => {
    const { troubles, titles, commands } = await meet({
      interfaces: [{ family: 'ipv4', address: '10.9.0.11', device: 'ens3', prefixLength: 24 }],
    });
    expect(troubles).toMatchObject([
      { code: 'vip-off-network', title: `${vip} is in no network of this host (ens3 10.9.0.11/24)` },
    ]);
    expect({ titles, commands }).toEqual({
      titles: ['Fix the findings above, then run vipnat doctor again.'],
      commands: [`vipnat doctor ${flags}`],
    });
  });

  test('is one that keepalived was told the interface of, where it is meant so', async () => {
    const { troubles } = await meet({
      ...withInstance,
      interfaces: [{ family: 'ipv4', address: '10.9.0.11', device: 'ens3', prefixLength: 24 }],
    });
    expect(levelsOf(troubles)).toEqual(['keepalived-not-running warn']);
  });

  test('as a stranger has it, is said, and nothing is built on it', async () => {
    const holder = { mac: '02:42:0a:4d:00:0c', addresses: [] };
    const { troubles, commands } = await meet({ linkHolders: { value: new Map([[vip, holder]]) } });
    expect(levelsOf(troubles)).toEqual(['vip-held-without-vrrp warn']);
    expect(commands).toEqual([`vipnat doctor ${flags}`]);
  });

  test('as kubeconfigs name it and nobody has it, is a failure before an installation too', async () => {
    const files = new Map([...masterFiles, [filePaths.admin, kubeconfig(`https://${vip}:6443`)]]);
    const { troubles } = await meet({ files });
    expect(levelsOf(troubles)).toContain('vip-nowhere fail');
  });

  test('as keepalived is to hold it and nobody has it, is one as well', async () => {
    const { troubles } = await meet({ ...withInstance, processes: { value: [keepalived] } });
    expect(levelsOf(troubles)).toEqual(['vip-nowhere fail']);
  });
});
