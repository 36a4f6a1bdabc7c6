import { describe, expect, test } from '@jest/globals';
import { toArguments } from '../../../config/arguments.ts';
import { type Flags } from '../../../config/flags.ts';
import { readConfig } from '../../../config/load.ts';
import { readCall } from '../../support/documents/call.ts';
import { describeOption, nameFlag, optionNames } from '../../../config/options.ts';

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
      '--vip=10.0.0.50:6443',
      '--vip=[fd00::50]:6443',
      '--mode=auto',
      '--cluster-ip=10.96.0.1',
      '--endpoints=10.0.0.11:6443,10.0.0.12:6443,[fd00::11]:6443',
      '--probe-interval=100ms',
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
