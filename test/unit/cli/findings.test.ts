import { describe, test, expect } from '@jest/globals';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';
import { listUnnamedVips, formatRunOnce, describeInSync, describeKubeProxy } from '../../../cli/findings.ts';
import { assessUnnamed } from '../agent/report/unnamed-host.ts';
import { formatEndpoint } from '../../../lib/net.ts';
import { tell } from '../../support/doctor/well-host.ts';
import { direct } from '../../support/fakes/endpoints.ts';

const others = ['10.0.0.60:6443', '10.0.0.60:8443', '[fd00::60]:6443'];

describe('virtual IPs that only the rules name', () => {
  test.each<[string, typeof ordinaryConfig]>([
    ['of iptables', ordinaryConfig],
    ['of our own table', { ...ordinaryConfig, iptables: 'none', mode: 'direct' }],
    ['without masquerading', { ...ordinaryConfig, masquerade: 'none' }],
  ])('are all found in rules %s', async (_, config) => {
    const found = listUnnamedVips(await assessUnnamed(others, config));
    expect(found.map(formatEndpoint)).toEqual(others);
  });

  test('are none where all are named, and repeated as a shell takes them', async () => {
    expect(listUnnamedVips(await assessUnnamed([]))).toEqual([]);
    const unnamed = listUnnamedVips(await assessUnnamed(others));
    expect(formatRunOnce('--vip=10.0.0.50:6443 --mode=direct', unnamed)).toBe(
      "vipnat run --once --vip=10.0.0.50:6443 --mode=direct --vip=10.0.0.60:6443 --vip=10.0.0.60:8443 '--vip=[fd00::60]:6443'",
    );
  });
});

const alone = { agent: null, flags: '--vip=10.0.0.50:6443' };

test("doctor, beside another virtual IP's rules, leaves it to a person whether they are still wanted", async () => {
  const told = await tell({ ...alone, assessment: { value: await assessUnnamed(['10.0.0.60:6443']) } });
  expect(told.find(({ code }) => code === 'stale-rules')).toMatchObject({
    why: 'These rules still match connections: to a VIP that no --vip names, or to apiservers that are gone.',
    remedy: [
      '# no --vip names 10.0.0.60:6443, and vipnat has rules for it here',
      '# if it is still wanted, name it too: vipnat run --once --vip=10.0.0.50:6443 --vip=10.0.0.60:6443',
      '# if it is no longer wanted: vipnat cleanup --vip=10.0.0.60:6443',
    ],
  });
  const lines = told.flatMap((one) => ('remedy' in one ? one.remedy : []));
  const commands = lines.filter((line) => !line.startsWith('#'));
  expect(commands.filter((line) => /vipnat (?:run|cleanup)/.test(line))).toEqual([]);
});

test('a remedy for rules that differ keeps what no --vip names', async () => {
  const assessment = await assessUnnamed(['10.0.0.60:6443']);
  const [table] = assessment.plan.tables;
  if (table === undefined) throw new Error('nothing is left over');
  const missing = { kind: 'missing-hook', chain: 'PREROUTING', message: 'PREROUTING has no jump' } as const;
  const plan = { ...assessment.plan, tables: [{ ...table, drift: [missing] }] };
  const told = await tell({ ...alone, assessment: { value: { ...assessment, plan } } });
  expect(told.find(({ code }) => code === 'rules-differ')).toMatchObject({
    remedy: ['vipnat run --once --vip=10.0.0.50:6443 --vip=10.0.0.60:6443'],
  });
});

test.each([
  [direct, 'is balanced, and its rules are in sync (direct, 1 apiserver)'],
  [
    { ...direct, mode: 'passthrough' as const, backends: [] },
    "is NOT BALANCED (passthrough): this host runs no kube-proxy. Only the VIP holder's own apiserver answers",
  ],
])('a VIP says over how many apiservers it is balanced, or loudly why it is not', (decision, words) => {
  expect(describeInSync(decision)).toBe(`[fd00::50]:6443 ${words}`);
});

test('kube-proxy is described by its mode, backend and what says so', () => {
  const proxyMode = { value: 'iptables', seenIn: 'reported at 127.0.0.1:10249' } as const;
  expect(describeKubeProxy({ proxyMode, dialect: { value: 'nft', seenIn: 'the default' } })).toBe(
    'kube-proxy: iptables (nft), reported at 127.0.0.1:10249',
  );
});
