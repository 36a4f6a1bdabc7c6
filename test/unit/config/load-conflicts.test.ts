import { type Flags, readConfig, toArguments, readTick, readEnvironment } from '../../../config/load.ts';
import { describe, test, expect } from '@jest/globals';
import { readCall } from '../../support/documents/call.ts';
import { optionNames, describeOption, nameFlag } from '../../../config/options.ts';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../support/network/own-folder.ts';

test('files that are not here are not told where the configuration is for another host', async () => {
  const flags = { vip: ['10.0.0.50'], caFile: '/nowhere/ca.crt', kubeconfig: '/nowhere/admin.conf' };
  expect((await read(flags)).problems).toEqual([]);
});

test('values that contradict one another say where the later one is from', async () => {
  const environment = { VIPNAT_ENDPOINTS: '10.0.0.11:6443,10.0.0.50:6443' };
  const { problems } = await readConfig({ flags: { vip: ['10.0.0.50'] }, environment, file: undefined });
  expect(problems).toEqual([expect.stringContaining('in a loop (from VIPNAT_ENDPOINTS). ')]);
});

const folder = makeFolder('config');

const read = (flags: Flags) => readConfig({ flags, environment: {}, file: undefined, isForElsewhere: true });

/** What a process makes of it that is started with these arguments. */
const readArguments = async (args: readonly string[]) => {
  return await read((await readCall(['run', ...args])).flags);
};

describe('arguments', () => {
  test('are canonical, in the order of the options, one for each virtual IP', async () => {
    const { config, given } = await read({
      endpoints: ['10.0.0.12:6443,10.0.0.11:6443', '[FD00:0::11]:6443'],
      probeInterval: '0.1s',
      clusterIp: ['10.96.0.1'],
      vip: ['10.0.0.50', 'FD00::0050'],
      mode: 'auto',
    });
    expect(toArguments(config, given)).toEqual([
      ...['--vip=10.0.0.50:6443', '--vip=[fd00::50]:6443', '--mode=auto', '--cluster-ip=10.96.0.1'],
      ...['--endpoints=10.0.0.11:6443,10.0.0.12:6443,[fd00::11]:6443', '--probe-interval=100ms'],
    ]);
  });

  test('say a duration that is no whole number as it was given', async () => {
    const { config, given } = await read({ probeInterval: '1.001s', probeTimeout: '20.5ms' });
    expect(toArguments(config, given)).toEqual(['--probe-interval=1001ms', '--probe-timeout=20.5ms']);
  });

  test('hold nothing that was not given', async () => {
    const { config, given } = await read({});
    expect(toArguments(config, given)).toEqual([]);
    expect(toArguments(config, new Set(optionNames)).filter((text) => text.endsWith('='))).toEqual([]);
  });

  test.each([...optionNames])('give %s to whoever is started with them', async (name) => {
    const { example, isList } = describeOption(name);
    const before = await read({ vip: ['10.0.0.50'], [name]: isList ? [example] : example });
    expect(before.problems).toEqual([]);
    const args = toArguments(before.config, before.given);
    expect(args.some((text) => text.startsWith(`${nameFlag(name)}=`))).toBe(true);
    const after = await readArguments(args);
    expect(after).toEqual(before);
  });
});

test('problems of a file come in the order of its lines, of whatever kind, by its own keys', async () => {
  const file = join(folder, 'vipnat.yaml');
  await writeFile(
    file,
    'vip: 10.0.0.50\nprobeInterval: 5\nproxy-mode: ipvs\nendpoints:\n  - fd00::11\n  - 10.0.0.50:6443\ncaFile: /nonexistent\nmode: fast\n',
  );
  const { problems } = await readConfig({ flags: { listen: 'x' }, environment: {}, file });
  const lines = problems.map((problem) => /line (\d+)/.exec(problem)?.[1]);
  expect(lines).toEqual(['2', '3', '5', '7', '8', undefined]);
  expect(problems[0]).toMatch(/^probeInterval 5 is not .*\. Example: probeInterval: 100ms$/);
  expect(problems[3]).toMatch(/^caFile \/nonexistent cannot be read /);
  expect(problems[5]).toMatch(/^--listen x is not /);
});

test.each([
  [{}, undefined],
  [{ VIPNAT_TEST_TICK_MS: '600000' }, 600_000],
  [{ VIPNAT_TEST_TICK_MS: '10m' }, undefined],
])('the tick of the tests is no option: %j', (environment, tickMs) => {
  expect(readTick(environment)).toBe(tickMs);
  const { settings, problems } = readEnvironment(environment);
  expect([settings.size, problems]).toEqual([0, []]);
});
