import { vipChainName } from '../../../../lib/dialect.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { noServices } from '../../../support/doctor/well-host.ts';
import { test, expect, describe } from '@jest/globals';
import { restoreCaptures, lookOnce } from '../../../support/agent/captured-host.ts';
import { applyPlan } from '../../../../agent/sync.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { formatCheckJson, type CheckFindings, formatCheck } from '../../../../cli/commands/check.ts';
import type { TopicOutcome } from '../../../../cli/doctor/examine.ts';
import { type HostStatus, toHostStatus } from '../../../../agent/report/status.ts';
import { plainScreen } from '../../../../cli/output.ts';
import { formatStatus } from '../../../../cli/commands/status.ts';
import { formatDoctor } from '../../../../cli/commands/doctor.ts';
import { stripVTControlCharacters } from 'node:util';
import { assessUnnamed } from '../../agent/report/unnamed-host.ts';
import { formatCommands } from '../../../../cli/screens/plan.ts';

const checked: Omit<CheckFindings, 'assessment'> = {
  ...{ unread: [], drops: [], config: { sysctls: 'set' }, agent: null },
  flags: '--vip=10.0.0.50:6443',
};
const services = { host: noServices.host, drift: [], commands: null, unread: [] };
const capture = 'iptables-nft-save.three-endpoints.txt';

/** Scripts read this: what is renamed here breaks them. */
test('check as JSON names every difference, and what it means for people', async () => {
  const kernel = restoreCaptures([capture]);
  await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
  const hook = /^-A (PREROUTING .*-j VIPNAT)$/m.exec(kernel.show('ipv4', 'nft'))?.[1] ?? '';
  const chain = vipChainName(toEndpoint('10.0.0.50:6443'));
  kernel.run('ipv4', 'nft', `*nat\n-D ${hook}\n-F ${chain}\nCOMMIT\n`);
  const assessment = await lookOnce(kernel, ordinaryConfig);
  expect(JSON.parse(formatCheckJson({ ...checked, assessment, services }, 'master-1'))).toMatchObject({
    ...{ version: 1, node: 'master-1', inSync: false },
    vips: [{ vip: '10.0.0.50:6443' }],
    drift: [
      {
        ...{ family: 'ipv4', backend: 'nft', table: 'nat', chain, kind: 'missing-rule' },
        consequence: '10.0.0.50:6443 should have the balancing mode service-chain',
      },
      {
        ...{ family: 'ipv4', backend: 'nft', table: 'nat', chain: 'PREROUTING', kind: 'missing-hook' },
        message: 'PREROUTING has no jump to VIPNAT',
        consequence: "clients on other hosts reach only the VIP holder's apiserver",
      },
    ],
    foreignDrops: [],
    balancer: null,
  });
  // In sync there is none, and drops of others are named all the same.
  await applyPlan(kernel, assessment.plan);
  const drops = [{ table: 'inet firewall', name: 'forward', isDropping: true }];
  const unread = [{ code: 'TOOL_FAILED', text: 'vipnat cannot read nat of ip6tables-nft' }] as const;
  const found = { assessment: await lookOnce(kernel, ordinaryConfig), drops, unread, services };
  const text = formatCheckJson(found, 'master-1');
  expect(JSON.parse(text)).toMatchObject({
    inSync: true,
    drift: [],
    foreignDrops: [{ table: 'inet firewall', chain: 'forward' }],
    unread,
  });
  expect(text.endsWith('}\n')).toBe(true);
});

const states = {
  '10.77.0.12:6443': {
    state: 'draining',
    reason: '/readyz answers 500: [-]shutdown failed',
    staleConnections: 'none',
  },
  '10.77.0.13:6443': {
    state: 'dead',
    reason: "connection refused 9 ms after the probe's connection closed",
    staleConnections: 'none',
  },
} as const;

const remedy = `vipnat keepalived --vip 10.0.0.50 --peers ${'10.0.0.11,'.repeat(9)}10.0.0.12 · …`;
const topics: readonly TopicOutcome[] = [
  {
    name: 'forwarding',
    outcomes: [
      { code: 'a', level: 'ok' },
      {
        ...{ code: 'b', level: 'warn', title: 'it may \u001b[31m matter' },
        ...{ why: 'a long story '.repeat(20), remedy: [remedy] },
      },
      { code: 'c', level: 'fail', title: 'it does matter '.repeat(10), why: 'for a reason', remedy: [] },
      { code: 'd', level: 'skipped', reason: 'it could not be seen' },
    ],
  },
];

async function readStatus(): Promise<HostStatus> {
  const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
  kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
  const assessment = await lookOnce(kernel, ordinaryConfig);
  return toHostStatus(
    { ...assessment, health: new Map(Object.entries(states)) },
    {
      agent: { version: '0.1.0', pid: 812, since: '2026-01-01T00:00:00.000Z' },
      activity: { writes: 2, syncedMsAgo: 40, apiservers: {} },
      flows: new Map(),
      keepalived: new Map([['10.0.0.50', { isRunning: true, instance: { vrid: 51, priority: 110 } }]]),
    },
  );
}

/** What each command shows on a screen. */
async function listScreens(screen: Partial<typeof plainScreen>): Promise<Record<string, string>> {
  const status = await readStatus();
  const { assessment } = status;
  const drops = [{ table: 'inet firewalld', name: 'filter_FORWARD', isDropping: true }];
  const shown = { ...plainScreen, ...screen };
  return {
    status: formatStatus(status, shown),
    doctor: formatDoctor(topics, false, shown),
    check: formatCheck({ ...checked, assessment, drops }, shown),
  };
}

/** Without what depends on the width: line breaks, and the dots that a line break stands for. */
const simplify = (text: string) => text.replaceAll(/[\s·]+/g, ' ');

describe('status, doctor and check', () => {
  test.each([40, 60, 80, 120, 200])('fit %p columns, but for commands, and say the same', async (width) => {
    const wide = await listScreens({});
    for (const [name, text] of Object.entries(await listScreens({ width }))) {
      const long = text
        .split('\n')
        .filter((line) => line.length > width && !/vipnat keepalived|vipnat run|nft insert/.test(line));
      expect({ name, long }).toEqual({ name, long: [] });
      expect(simplify(text)).toBe(simplify(wide[name] ?? ''));
    }
  });

  test('break no command, however narrow the screen is', async () => {
    const { doctor, check } = await listScreens({ width: 60 });
    expect(doctor).toContain(`         ${remedy}\n`);
    expect(check).toMatch(/^ +nft insert rule inet firewalld filter_FORWARD ct status dnat accept$/m);
    expect(check).toContain('vipnat run --once --vip=10.0.0.50:6443');
  });

  test('colour states, and nothing that is from elsewhere', async () => {
    const { status = '', doctor = '', check = '' } = await listScreens({ isColoured: true });
    expect(status).toMatch(/\u001b\[33mdraining\u001b\[39m/);
    expect(status).toMatch(/\u001b\[31mdead\u001b\[39m/);
    expect(status).toMatch(/\u001b\[31mNOT IN SYNC \(\d+ differences\)\u001b\[39m/);
    expect(doctor).toContain(' \u001b[32mok\u001b[39m    forwarding');
    expect(doctor).toContain(' \u001b[31mFAIL\u001b[39m  it does');
    expect(doctor).toContain(' \u001b[33mWARN\u001b[39m  it may \\u001b[31m matter');
    expect(check).toContain('\u001b[33mdrift:\u001b[39m ');
    const plain = await listScreens({});
    expect(stripVTControlCharacters(status)).toBe(plain['status']);
    expect(stripVTControlCharacters(check)).toBe(plain['check']);
  });

  test('are ASCII where Unicode cannot be shown, but for commands', async () => {
    for (const [name, text] of Object.entries(await listScreens({ isUnicode: false }))) {
      expect(text.replace(remedy, '')).toMatch(/^[\n\x20-\x7e]*$/);
      if (name === 'status')
        expect(text).toMatch(/^10\.0\.0\.50:6443 {3}not held by this node - service-chain - NOT IN SYNC/);
    }
  });
});

test('check names no command that writes beside an agent', async () => {
  const { assessment } = await readStatus();
  const text = formatCheck({ ...checked, assessment, agent: { pid: 812 } });
  expect(text).toContain('the running agent (pid 812) repairs what differs from its own configuration\n');
  expect(text).not.toContain('vipnat run');
});

test('check and status warn of what a source names and vipnat does not use', async () => {
  const found = await readStatus();
  const sentence = '--endpoints names 10.77.0.14:6443, and nat KUBE-SVC-X does not.';
  const assessment = { ...found.assessment, refused: [sentence] };
  expect(formatCheck({ ...checked, assessment })).toContain(`warning: ${sentence}\n`);
  expect(formatStatus({ ...found, assessment })).toContain(`warning     ${sentence}\n`);
});

test('check keeps the rules of a virtual IP that nobody named, and says what removes them', async () => {
  const text = formatCheck({ ...checked, assessment: await assessUnnamed(['10.0.0.60:6443']) });
  expect(text).toContain(
    'vipnat run repairs it; vipnat run --once --vip=10.0.0.50:6443 --vip=10.0.0.60:6443 repairs it now\n',
  );
  expect(text).toContain(
    'no --vip names 10.0.0.60:6443, and vipnat has rules for it here: name it too, or vipnat cleanup --vip=10.0.0.60:6443 removes them\n',
  );
});

test('plan breaks its comments on a narrow screen, and no command', async () => {
  const { assessment } = await readStatus();
  const plain = formatCommands(assessment, 'm1');
  const commandsOf = (text: string) =>
    text.split('\n').filter((line) => !line.startsWith('#') && line !== '');
  const screen = { ...plainScreen, width: 60, isUnicode: false, isColoured: true };
  const narrow = formatCommands(assessment, 'm1', screen);
  expect(commandsOf(narrow)).toEqual(commandsOf(plain));
  const comments = narrow.split('\n').filter((line) => line.startsWith('#'));
  expect(comments.filter((line) => line.length > 60)).toEqual([]);
  expect(comments.join('\n')).toMatch(/^# m1 - kube-proxy: iptables[^]*\n# {3}\S/);
});
