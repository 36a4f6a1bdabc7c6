import { describe, test, expect } from '@jest/globals';
import { restoreCaptures, lookOnce, decisionOf } from '../../support/agent/captured-host.ts';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';
import { applyPlan } from '../../../agent/sync.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';

const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];
const two = three.slice(0, 2);

describe('kube-proxy in nftables mode', () => {
  test.each([
    ['nft-kube-proxy.three-endpoints.json', three],
    ['nft-kube-proxy.two-endpoints.json', two],
    ['nft-kube-proxy.client-ip-affinity.json', three],
  ])(
    '%s: its chains cannot be joined, so a table of our own sends the VIP straight to its apiservers',
    async (name, apiservers) => {
      const kernel = restoreCaptures([name]);
      const assessment = await lookOnce(kernel, ordinaryConfig);
      expect(decisionOf(assessment)).toMatchObject({ mode: 'direct', isBypass: false, backends: apiservers });
      await applyPlan(kernel, assessment.plan);
      const chosen = [...kernel.showNft('ipv4').matchAll(/ dnat to (\S+) /g)].map(([, text]) => text);
      expect([...new Set(chosen)]).toEqual(apiservers);
      expect(kernel.show('ipv4', 'nft')).toBe('');
    },
  );

  test('a new agent learns the apiservers from the table of the one before (I4)', async () => {
    const kernel = restoreCaptures(['nft-kube-proxy.three-endpoints.json']);
    await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
    kernel.setNftProxy('ipv4', null);
    const fresh = await lookOnce(kernel, { ...ordinaryConfig, iptables: 'none' });
    expect(decisionOf(fresh)).toMatchObject({ mode: 'direct', backends: three });
    expect(fresh.plan.transactions).toEqual([]);
  });

  test('after a change of its mode the new rules are written before the old ones go', async () => {
    const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
    await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
    const after = await lookOnce(kernel, ordinaryConfig, { answer: 'nftables' });
    expect(after.plan.transactions.map(({ dialect }) => dialect)).toEqual(['nftables', 'nft']);
    await applyPlan(kernel, after.plan);
    const back = await lookOnce(kernel, ordinaryConfig, { answer: 'iptables' });
    expect(back.plan.transactions.map(({ dialect }) => dialect)).toEqual(['nft', 'nftables']);
    await applyPlan(kernel, back.plan);
    expect(kernel.showNft('ipv4')).toBe('');
    expect((await lookOnce(kernel, ordinaryConfig, { answer: 'iptables' })).plan.transactions).toEqual([]);
  });

  test('where iptables drops what is forwarded, iptables is told to let it through', async () => {
    const kernel = restoreCaptures(['nft-kube-proxy.three-endpoints.json']);
    kernel.run('ipv4', 'legacy', '*filter\n:FORWARD DROP [0:0]\nCOMMIT\n');
    kernel.run('ipv4', 'nft', '*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n');
    await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
    expect(kernel.show('ipv4', 'legacy')).toMatch(/-A FORWARD .*-j VIPNAT-FORWARD\n/);
    expect(kernel.show('ipv4', 'legacy')).not.toContain('*nat');
    expect(kernel.show('ipv4', 'nft')).not.toContain('VIPNAT');
    kernel.run('ipv4', 'legacy', '*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n');
    await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
    expect(kernel.show('ipv4', 'legacy')).not.toContain('VIPNAT');
  });

  test('nft-kube-proxy.no-endpoints.json: nobody knows an apiserver', async () => {
    const kernel = restoreCaptures(['nft-kube-proxy.no-endpoints.json']);
    expect(decisionOf(await lookOnce(kernel, ordinaryConfig)).mode).toBe('passthrough');
  });
});

describe('a host without iptables', () => {
  test('gets a table of our own', async () => {
    const kernel = restoreCaptures([]);
    kernel.hasIptables = false;
    const config = { ...ordinaryConfig, endpoints: three.map(toEndpoint) };
    const assessment = await lookOnce(kernel, config);
    expect(assessment.observation.dialect).toEqual({
      value: 'nftables',
      seenIn: 'no iptables is installed',
    });
    await applyPlan(kernel, assessment.plan);
    expect((await lookOnce(kernel, config)).plan.transactions).toEqual([]);
  });
});

describe('a host whose iptables cannot show a table, as it holds a rule of nft', () => {
  const config = { ...ordinaryConfig, endpoints: three.map(toEndpoint) };

  test.each(['nat', 'filter'])(
    'gets a table of our own, and iptables again when it can: %s',
    async (table) => {
      const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
      kernel.run('ipv4', 'nft', '*filter\n:FORWARD DROP [0:0]\nCOMMIT\n');
      const look = () => lookOnce(kernel, config, { answer: 'iptables' });
      await applyPlan(kernel, (await look()).plan);
      kernel.faults.spoilTable('iptables-nft-save', table, 'incompatible');
      kernel.forwardChains = [{ table: 'ip filter', name: 'FORWARD', isDropping: true }];

      const spoilt = await look();
      expect(spoilt.observation.dialect).toEqual({
        value: 'nftables',
        seenIn: `iptables-nft cannot show the table ${table}`,
      });
      expect(decisionOf(spoilt)).toMatchObject({ mode: 'direct', backends: three });
      await applyPlan(kernel, spoilt.plan);
      expect(kernel.showNft('ipv4')).toContain('hook prerouting priority -105');
      // What cannot be read stays as it is; what can be, and is not needed, goes. FORWARD drops.
      expect(kernel.show('ipv4', 'nft').includes(' -j VIPNAT\n')).toBe(table === 'nat');
      expect(kernel.show('ipv4', 'nft')).toContain(' -j VIPNAT-FORWARD\n');
      expect((await look()).plan.transactions).toEqual([]);

      kernel.faults.spoilTable('iptables-nft-save', '');
      const healed = await look();
      expect(healed.plan.transactions.map(({ dialect }) => dialect)).toEqual(['nft', 'nftables']);
      await applyPlan(kernel, healed.plan);
      expect(kernel.showNft('ipv4')).toBe('');
      expect((await look()).plan.transactions).toEqual([]);
    },
  );

  test('balances nothing where that table drops what passes, and has no rule of ours yet that lets it pass', async () => {
    const kernel = restoreCaptures([]);
    kernel.faults.spoilTable('iptables-nft-save', 'filter', 'incompatible');
    const bringChain = (isDropping: boolean) => {
      kernel.forwardChains = [{ table: 'ip filter', name: 'FORWARD', isDropping }];
      return lookOnce(kernel, config);
    };
    await expect(bringChain(true)).rejects.toMatchObject({
      code: 'TABLE_INCOMPATIBLE',
      message: expect.stringContaining('nft add rule ip filter FORWARD ct status dnat accept'),
    });
    expect((await bringChain(false)).observation.dialect.value).toBe('nftables');
  });

  test('is not written to where --iptables names it, and the error names the way out', async () => {
    const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
    kernel.faults.spoilTable('iptables-nft-save', 'nat', 'incompatible');
    await expect(lookOnce(kernel, { ...config, iptables: 'nft' })).rejects.toMatchObject({
      code: 'TABLE_INCOMPATIBLE',
      message: expect.stringContaining('--iptables none'),
    });
  });
});
