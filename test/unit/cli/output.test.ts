import { VipnatError } from '../../../lib/errors.ts';
import { test, expect, describe } from '@jest/globals';
import { formatError, readScreen } from '../../../cli/output.ts';
import { formatJson } from '../../../cli/commands/plan.ts';
import { restoreCaptures, lookOnce } from '../../support/agent/captured-host.ts';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';
import { applyPlan } from '../../../agent/sync.ts';
import type { Environment } from '../../../config/load.ts';

const plain = { isDebug: false, isJson: false };
const debug = { isDebug: true, isJson: false };

const failed = new VipnatError('TOOL_FAILED', 'iptables-restore failed: line 3', {
  details: '*nat\nCOMMIT\n',
});

const line = 'vipnat: [TOOL_FAILED] iptables-restore failed: line 3\n';
const lines = 'vipnat: [CONFIG_INVALID] a\nvipnat: [CONFIG_INVALID] b\n';
const isBug: unknown = expect.stringMatching(
  /^vipnat: \[INTERNAL_ERROR\] x is not a function\. This is a bug\. .*--log-level debug\n$/,
);
const hasStack: unknown = expect.stringMatching(/\[INTERNAL_ERROR\] x\nTypeError: x\n +at /);

test.each<[string, unknown, typeof plain, [unknown, number]]>([
  ['a failure is one line with its code', failed, plain, [line, 1]],
  ['several are a line each', new VipnatError('CONFIG_INVALID', 'a\nb'), plain, [lines, 78]],
  ["at debug the tool's own words follow", failed, debug, [`${line}*nat\nCOMMIT\n`, 1]],
  ['anything else is a bug, in one line', new TypeError('x is not\na function'), plain, [isBug, 1]],
  ['so is what is no error', 'x is not a function', plain, [isBug, 1]],
  ['at debug a bug shows its stack', new TypeError('x'), debug, [hasStack, 1]],
])('%s, with the exit status of its code', (_, error, form, [text, exitCode]) => {
  expect(formatError(error, form)).toEqual({ text, exitCode });
});

test.each([
  "EMFILE: too many open files, open '/opt/vipnat/vendor/winston.js'",
  'Cannot read package config /opt/vipnat/vendor/package.json: too many open files..',
])('a want of descriptors is no bug, and says how to have more: %s', (message) => {
  const { text, exitCode } = formatError(new Error(message), plain);
  expect(text).toBe(
    `vipnat: [DESCRIPTORS_EXHAUSTED] ${message.replace('..', '')}. Raise the limit of open files: this process's (ulimit -n, LimitNOFILE= of a unit) or the host's (sysctl fs.file-max)\n`,
  );
  expect(exitCode).toBe(1);
});

describe('where the log is JSON', () => {
  const readLines = (error: unknown, isDebug = false) =>
    formatError(error, { isDebug, isJson: true })
      .text.trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);

  test('each line is a line of the log, with the code as a field', () => {
    expect(readLines(new VipnatError('CONFIG_INVALID', 'a\nb'))).toEqual([
      { time: expect.any(String), level: 'error', msg: 'a', code: 'CONFIG_INVALID' },
      { time: expect.any(String), level: 'error', msg: 'b', code: 'CONFIG_INVALID' },
    ]);
  });

  test("at debug the tool's own words are a field of the last line", () => {
    expect(readLines(failed)).toEqual([expect.not.objectContaining({ details: expect.anything() })]);
    expect(readLines(failed, true)).toMatchObject([{ code: 'TOOL_FAILED', details: '*nat\nCOMMIT' }]);
  });

  test('a bug has a code too', () => {
    expect(readLines(new TypeError('x'))).toMatchObject([
      { msg: expect.stringMatching(/^x\. This is a bug/), code: 'INTERNAL_ERROR' },
    ]);
  });
});

const capture = 'iptables-nft-save.three-endpoints.txt';

/** Scripts read this: what is renamed here breaks them. */
test('the plan as JSON has every decision and every transaction', async () => {
  const kernel = restoreCaptures([capture]);
  kernel.addAddress({ family: 'ipv4', address: '10.0.0.50', device: 'eth0' });
  const state = await lookOnce(kernel, ordinaryConfig);
  const restore = { tool: 'iptables-nft-restore', family: 'ipv4' };
  expect(JSON.parse(formatJson(state, 'master-1'))).toEqual({
    ...{ version: 1, node: 'master-1', unread: [] },
    kubeProxy: { mode: 'iptables', backend: 'nft', reason: 'nat KUBE-SERVICES (iptables-nft)' },
    vips: [
      {
        ...{ vip: '10.0.0.50:6443', family: 'ipv4', held: true, mode: 'service-chain' },
        reason: 'kube-proxy sends 10.96.0.1 to the same 3 apiservers (nat KUBE-SERVICES (iptables-nft))',
        clusterIp: '10.96.0.1',
        backends: ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'],
        affinitySeconds: null,
        localSource: '10.0.0.50',
      },
    ],
    inSync: false,
    sysctls: [],
    localRoutes: [],
    refused: [],
    transactions: [{ ...restore, input: state.plan.transactions[0]?.input }],
    balancer: null,
  });
});

test('in sync there are no transactions, and a host that does not forward is not in sync, whatever its rules', async () => {
  const kernel = restoreCaptures([capture]);
  await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
  const text = formatJson(await lookOnce(kernel, ordinaryConfig), 'master-1');
  expect(JSON.parse(text)).toMatchObject({ inSync: true, transactions: [], vips: [{ held: false }] });
  expect(text.endsWith('}\n')).toBe(true);
  kernel.forwarding = { ipv4: false, ipv6: false };
  expect(JSON.parse(formatJson(await lookOnce(kernel, ordinaryConfig), 'master-1'))).toMatchObject({
    ...{ inSync: false, transactions: [] },
    sysctls: [{ name: 'net.ipv4.ip_forward', value: '0', wanted: '1' }],
  });
});

const terminal = { isTerminal: true, columns: 120 };
const pipe = { isTerminal: false, columns: null };
const onTerminal = (environment: Environment) => readScreen(environment, terminal, 'auto');

describe('a screen', () => {
  test('is as wide as its terminal, from 40 to 200 columns, or as COLUMNS says', () => {
    const widths = [20, 120, 400].map((columns) => readScreen({}, { ...terminal, columns }, 'auto').width);
    expect(widths).toEqual([40, 120, 200]);
    expect([onTerminal({ COLUMNS: '90' }).width, onTerminal({ COLUMNS: 'wide' }).width]).toEqual([90, 120]);
  });

  test('of a pipe has no width, unless COLUMNS says one', () => {
    expect([{}, { COLUMNS: '100' }].map((one) => readScreen(one, pipe, 'auto').width)).toEqual([null, 100]);
    expect(readScreen({}, { isTerminal: true, columns: null }, 'auto').width).toBeNull();
  });

  test('is coloured on a terminal, but with NO_COLOR, TERM=dumb or --color never', () => {
    expect(onTerminal({ NO_COLOR: '' }).isColoured).toBe(true);
    const off = { isColoured: false };
    const [bare, dumb] = [onTerminal({ NO_COLOR: '1' }), onTerminal({ TERM: 'dumb' })];
    expect([bare, dumb]).toMatchObject([
      { ...off, isTerminal: true },
      { ...off, isTerminal: false },
    ]);
    expect([readScreen({}, terminal, 'never'), readScreen({}, pipe, 'auto')]).toMatchObject([off, off]);
    expect(readScreen({ NO_COLOR: '1' }, pipe, 'always').isColoured).toBe(true);
  });

  test.each([
    [{}, true],
    [{ LANG: 'C' }, false],
    [{ LANG: 'en_US.UTF-8' }, true],
    [{ LC_ALL: 'C', LANG: 'en_US.UTF-8' }, false],
    [{ LC_ALL: '', LC_CTYPE: 'C.utf8', LANG: 'C' }, true],
  ])('with %j can show Unicode: %p', (environment, isUnicode) => {
    expect(onTerminal(environment).isUnicode).toBe(isUnicode);
  });
});
