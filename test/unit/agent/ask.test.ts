import { type Flags, readConfig } from '../../../config/load.ts';
import {
  type AgentOptions,
  optionsAnswer,
  toOptionsAnswer,
  type Scope,
  readDiagnosticConfig,
  apiAnswer,
} from '../../../agent/ask.ts';
import { describe, test, expect } from '@jest/globals';

const nothing = { flags: {}, environment: {}, file: undefined };
const info = { version: '1.2.3', pid: 903, since: '2026-11-22T00:00:00Z' };

/** What an agent with these flags tells, as it comes over its socket. */
async function tell(flags: Flags): Promise<AgentOptions> {
  const { config } = await readConfig({ ...nothing, flags });
  return optionsAnswer.parse(JSON.parse(JSON.stringify(toOptionsAnswer(config)))).options;
}
const readBeside = async (agent: Flags, flags: Flags, scope: Scope = 'host') => {
  const options = await tell(agent);
  const told = { kind: 'details', options, agent: info } as const;
  return await readDiagnosticConfig({ ...nothing, flags }, scope, () => Promise.resolve(told));
};

const agentFlags = {
  vip: ['10.0.0.50', 'fd00::50'],
  mode: 'direct',
  endpoints: ['10.0.0.11:6443,[fd00::11]:6443'],
  probeInterval: '100ms',
};

const everything =
  "the running agent (pid 903) has --vip=10.0.0.50:6443 '--vip=[fd00::50]:6443' --mode=direct '--endpoints=10.0.0.11:6443,[fd00::11]:6443' --probe-interval=100ms";
const allTaken = `${everything}, and all its virtual IPs are taken`;
const given =
  "--vip=10.0.0.50:6443 --vip=10.0.0.60:6443 is taken, but the running agent has --vip=10.0.0.50:6443 '--vip=[fd00::50]:6443'";
const [both, other] = ['10.0.0.50 fd00::50', '10.0.0.50 10.0.0.60'];

describe('beside a running agent', () => {
  test('a diagnostic has its whole configuration, and says so in one line', async () => {
    const { reading, notes } = await readBeside(agentFlags, {});
    const { config } = await readConfig({ ...nothing, flags: agentFlags });
    expect(reading).toMatchObject({ config, problems: [] });
    expect(notes).toEqual([everything]);
    // Remedies repeat it.
    expect([...reading.given]).toEqual(['vip', 'mode', 'endpoints', 'probeInterval']);
  });

  test('what a person gives counts, and where it differs is said', async () => {
    const { reading, notes } = await readBeside(agentFlags, { ...agentFlags, mode: 'auto' });
    expect(reading.config.mode).toBe('auto');
    expect(notes).toEqual(['--mode=auto is taken, but the running agent has --mode=direct']);
  });

  test.each([
    ['nothing is said where all are the same', ['10.0.0.50', 'fd00::50'], both, []],
    ['nothing is said where they are in another order', ['fd00::50', '10.0.0.50'], both, []],
    ['all are looked at for the first', ['10.0.0.50'], both, [allTaken]],
    ['all are looked at for the second', ['fd00::50'], both, [allTaken]],
    ['one that the agent lacks is judged as given, and named', ['10.0.0.50', '10.0.0.60'], other, [given]],
  ])('of the virtual IPs that are given: %s', async (_, vip, taken, expected) => {
    const { reading, notes } = await readBeside(agentFlags, { vip });
    expect(reading.config.vips.map(({ address }) => address).join(' ')).toBe(taken);
    expect([notes, reading.given.has('vip')]).toEqual([expected, true]);
  });

  test('a plan is for the virtual IPs that are given, and says what else the agent has', async () => {
    const { reading, notes } = await readBeside(agentFlags, { vip: ['10.0.0.50'] }, 'given');
    expect(reading.config.vips).toMatchObject([{ address: '10.0.0.50' }]);
    expect(notes[0]).toContain('--vip=10.0.0.50:6443 is taken, but the running agent has ');
  });

  test("for other virtual IPs, the agent's addresses of another family are left out", async () => {
    const { reading } = await readBeside(agentFlags, { vip: ['10.0.0.60'] });
    expect(reading.problems).toEqual([]);
    expect(reading.config.endpoints).toMatchObject([{ address: '10.0.0.11' }]);
  });

  /** Beside one that tells this, too. */
  const readTold = async (more: AgentOptions) => {
    const told = { kind: 'details', options: { ...(await tell(agentFlags)), ...more }, agent: info } as const;
    return await readDiagnosticConfig(nothing, 'host', () => Promise.resolve(told));
  };

  test("a CA that only the agent's container has is left out", async () => {
    const { reading } = await readTold({ caFile: ['/nonexistent/ca.crt'] });
    expect(reading).toMatchObject({ problems: [], config: { caFile: null } });
  });

  test('options of another version that mean nothing here are not taken, and the reason is told', async () => {
    const { reading, reason } = await readTold({ mode: ['teleport'] });
    expect(reading.config.vips).toEqual([]);
    expect(reason).toContain('this version does not know');
  });
});

test.each(['nobody', 'untrusted', 'unresponsive'] as const)(
  'where the answer is %s, only what a person gives counts',
  async (kind) => {
    const flags = { vip: ['10.0.0.50'] };
    const { reading, notes, reason } = await readDiagnosticConfig({ ...nothing, flags }, 'host', () =>
      Promise.resolve({ kind }),
    );
    expect(reading).toEqual(await readConfig({ ...nothing, flags }));
    expect(notes).toEqual([]);
    expect(reason).toEqual(expect.any(String));
  },
);

test('an agent tells no path to credentials, and nothing of its own process', async () => {
  const flags = { vip: ['10.0.0.50'], kubeconfig: '/etc/kubernetes/admin.conf', logLevel: 'debug' };
  const told = JSON.stringify(await tell(flags));
  expect(told).not.toMatch(/admin\.conf|kubeconfig|logLevel|listen/);
});

test.each([
  [null],
  [info],
  [{ options: [] }],
  [{ options: { vip: '10.0.0.50' } }],
  [{ options: { vip: [1] } }],
  [{ options: { vip: ['1'.repeat(5000)] } }],
  [{ options: { vip: Array(1001).fill('10.0.0.50') } }],
])('what is no such answer is none: %j', (json) => {
  expect(optionsAnswer.safeParse(json).success).toBe(false);
});

const endpoint = { family: 'ipv4', address: '10.0.0.11', port: 6443 };

function answer(changes: object = {}) {
  const value = [{ ...endpoint, ...changes }];
  const rest = { clusterIps: { ipv4: '10.96.0.1' }, affinitySeconds: 60, refused: ['a'], isCurrent: true };
  const proxyOnly = { ipv4: value };
  return { proxyOnly, view: { endpoints: { ipv4: { value, seenIn: 'the API' } }, ...rest, ...changes } };
}

test('what the agent says is taken as it says it', () => {
  expect(apiAnswer.parse(answer())).toEqual(answer());
  expect(apiAnswer.parse({ view: null })).toEqual({ view: null, proxyOnly: {} });
});

test.each([
  { address: '10.0.0.11\n-A PREROUTING -j ACCEPT' },
  { address: '10.0.0.11;reboot' },
  { address: 'fd00::11' },
  { address: 'FD00::11', family: 'ipv6' },
  { port: 0 },
  { port: 1.5 },
  { port: 65_536 },
  { clusterIps: { ipv4: '$(reboot)' } },
  { clusterIps: { ipv6: '10.96.0.1' } },
  { affinitySeconds: 1e21 },
  { affinitySeconds: 0 },
])('whoever else has its name cannot have this written into a rule: %j', (changes) => {
  expect(apiAnswer.safeParse(answer(changes)).success).toBe(false);
});

test('its sentences are lines', () => {
  expect(apiAnswer.safeParse(answer({ refused: ['two\nlines \u001b[2J'] })).data?.view?.refused).toEqual([
    String.raw`two lines \u001b[2J`,
  ]);
});
