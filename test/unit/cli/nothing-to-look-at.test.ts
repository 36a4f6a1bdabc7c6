import { test, expect } from '@jest/globals';
import {
  assessWell,
  tell,
  makeFacts,
  makeProcess,
  serving,
  withFile,
  kubeconfig,
} from '../../support/doctor/well-host.ts';

test('where no apiserver is known and nothing is forwarded, what rests on apiservers is not checked', async () => {
  const assessment = await assessWell();
  const missing = {
    name: 'net.ipv4.ip_forward',
    command: 'sysctl -w net.ipv4.ip_forward=1',
    advertised: [],
    family: 'ipv4',
    isOwn: true,
  } as const;
  const declined = assessment.decisions.map((decision) => ({
    ...decision,
    mode: 'passthrough' as const,
    reason: 'IP forwarding is off (net.ipv4.ip_forward is 0)',
    backends: [],
  }));
  const told = await tell({
    serving: { value: new Map() },
    assessment: {
      value: { ...assessment, health: new Map(), decisions: declined, missingSwitches: [missing] },
    },
  });
  const codeToLevel = new Map(told.map(({ code, level }) => [code, level]));
  expect(codeToLevel.get('forwarding-off')).toBe('fail');
  expect(codeToLevel.get('no-apiserver-known')).toBe('fail');
  for (const code of ['apiserver-down', 'certificate-lacks-vip', 'certificate-expires', 'clock-off']) {
    expect([code, codeToLevel.get(code)]).toEqual([code, 'skipped']);
  }
});

test('rules of a vipnat that is not installed are not told to be right', async () => {
  const { assessment } = await makeFacts();
  if ('unknown' in assessment) throw new Error('the host is known');
  const rulesets = assessment.value.observation.rulesets.map((ruleset) => ({
    ...ruleset,
    tables: new Map(),
  }));
  const observation = { ...assessment.value.observation, rulesets, nftRulesets: [] };
  const told = await tell({ agent: null, assessment: { value: { ...assessment.value, observation } } });
  expect(told.find(({ code }) => code === 'rules-differ')).toMatchObject({ level: 'skipped' });
});

test('a process that may be in another network namespace is not blamed', async () => {
  const hidden = [
    makeProcess('kube-apiserver', { isSurelyHere: false, arguments: ['kube-apiserver', '--secure-port=1'] }),
    makeProcess('kube-vip', { isSurelyHere: false }),
    makeProcess('keepalived', { isSurelyHere: false }),
  ];
  const told = await tell({ processes: { value: hidden }, listeners: { value: [] } });
  expect(told.filter(({ level }) => level !== 'skipped')).toEqual([]);
  const codes = ['keepalived-not-running', 'kube-vip-running', 'no-shutdown-delay'];
  expect(told.map(({ code }) => code)).toEqual(expect.arrayContaining(codes));
});

test('a check that can see a part of what it is about tells which part it cannot', async () => {
  const answers = new Map([
    ['10.77.0.12:6443', { ...serving, alternativeNames: 'DNS:kubernetes' }],
    ['10.77.0.13:6443', null],
  ]);
  const told = await tell({ serving: { value: answers } });
  expect(told.filter(({ code }) => code === 'certificate-lacks-vip')).toMatchObject([
    { level: 'fail' },
    { level: 'skipped', reason: '10.77.0.13:6443 did not answer' },
  ]);
});

test('a kubeconfig whose server has an address that is not known here is not told to be well', async () => {
  const told = await tell(withFile('/etc/kubernetes/scheduler.conf', kubeconfig('https://elsewhere:6443')));
  expect(told).toMatchObject([
    { code: 'kubeconfig-at-vip', level: 'skipped' },
    { code: 'kubeconfig-past-vip', level: 'skipped' },
  ]);
});
