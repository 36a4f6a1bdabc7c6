import { test, expect, describe } from '@jest/globals';
import {
  assessWell,
  tell,
  makeFacts,
  makeProcess,
  serving,
  withFile,
  kubeconfig,
  withConfiguration,
  keepalivedText,
} from '../../support/doctor/well-host.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';
import { lookOnce } from '../../support/agent/captured-host.ts';

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
  for (const code of ['apiserver-down', 'certificate-lacks-vip', 'certificate-expires', 'clock-off'])
    expect([code, codeToLevel.get(code)]).toEqual([code, 'skipped']);
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

test.each([
  ['ipv4', '10.77.0.50:6443'],
  ['ipv6', '[fd77::50]:6443'],
] as const)('apiservers that advertise the VIP: doctor says how they stop, %s', async (family, vip) => {
  const kernel = new FakeKernel(new FakeClock());
  syncKubeProxy(kernel, { family, dialect: 'nft' }, [toEndpoint(vip)]);
  const config = { ...ordinaryConfig, vips: [toEndpoint(vip)] };
  const told = await tell({ config, assessment: { value: await lookOnce(kernel, config) } });
  expect(told.find(({ code }) => code === 'no-apiserver-known')).toMatchObject({
    level: 'fail',
    why: `The reason: no apiserver is known (no source lists a usable one: ${vip} is the address of a virtual IP).`,
    remedy: [
      '# on each master in turn: give kube-apiserver the own address of its host by',
      '# --advertise-address in /etc/kubernetes/manifests/kube-apiserver.yaml; until then',
      '# name the apiservers, here and in the options of the agent',
      expect.stringContaining('--endpoints'),
    ],
  });
});

const bootLines = [
  '# to create the file at every boot: unless /etc/tmpfiles.d or /usr/lib/tmpfiles.d has a vipnat.conf, write',
  '# these lines to /etc/tmpfiles.d/vipnat-serving.conf:',
  '#   d /run/vipnat 0755 root root -',
  '#   d /run/vipnat/keepalived 0755 root root -',
  '#   f /run/vipnat/keepalived/serving 0644 root root - 0',
];

describe('a track file that says 1', () => {
  const trackFile = { value: { content: '1', isWatched: true } };

  test("is nobody's business while an agent runs", async () => {
    expect(await tell({ trackFile })).toEqual([]);
  });

  test('is a failure where no agent could take it back, unless the host is drained', async () => {
    const drain = { value: { since: new Date(), vipStaysSince: null } };
    expect(await tell({ trackFile, agent: null, drain })).toMatchObject([{ code: 'agent-not-running' }]);
    const told = await tell({ trackFile, agent: null });
    const remedy = ['echo 0 > /run/vipnat/keepalived/serving'];
    expect(told).toMatchObject([
      { code: 'track-file-stale', level: 'fail', remedy },
      { code: 'agent-not-running' },
    ]);
  });

  test('is taken back before a keepalived is made to go by it that did without', async () => {
    const told = await tell({ trackFile: { value: { content: '1', isWatched: false } }, agent: null });
    const [dropped] = told.filter(({ code }) => code === 'track-file-dropped');
    expect(dropped).toMatchObject({
      remedy: [
        ...['mkdir -p /run/vipnat/keepalived', 'echo 0 > /run/vipnat/keepalived/serving', 'kill -HUP 7'],
        ...bootLines,
      ],
    });
  });

  test('is not looked at where keepalived is not to follow it', async () => {
    const changed = withConfiguration(keepalivedText.replace('track_file {', 'x {'));
    const told = await tell({ trackFile, agent: null, ...changed });
    const levels = told.filter(({ code }) => code.startsWith('track-file')).map(({ level }) => level);
    expect(levels).toEqual(['skipped', 'skipped']);
  });
});

test('a keepalived that is to follow the file gets it at boot, by a file that takes no other one’s place', async () => {
  const told = await tell(withConfiguration(keepalivedText.replaceAll('/run/vipnat', '/run/elsewhere')));
  const [untracked] = told.filter(({ code }) => code === 'keepalived-untracked');
  expect(untracked).toMatchObject({ remedy: expect.arrayContaining([...bootLines]) as unknown });
});
