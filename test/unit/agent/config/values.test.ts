import { expect, test } from '@jest/globals';
import { type Flags } from '../../../../agent/config/flags.ts';
import { type ConfigReading, readConfig } from '../../../../agent/config/load.ts';

function read(flags: Flags): Promise<ConfigReading> {
  return readConfig({ flags, environment: {}, file: undefined });
}

test('a duration is read in milliseconds', async () => {
  const { config, problems } = await read({ probeInterval: '1.5s', probeTimeout: '100ms' });
  expect(problems).toEqual([]);
  expect(config).toMatchObject({ probeIntervalMs: 1500, probeTimeoutMs: 100 });
});

test.each([
  ['250', 'is not a duration with its unit, ms or s'],
  ['-1s', 'is not a duration with its unit, ms or s'],
  ['1m', 'is not a duration with its unit, ms or s'],
  ['19ms', 'is not between 20ms and 10s'],
  ['10.001s', 'is not between 20ms and 10s'],
])('the duration %s is refused', async (probeTimeout, complaint) => {
  const { problems } = await read({ probeTimeout });
  expect(problems).toEqual([`--probe-timeout ${probeTimeout} ${complaint}. Example: --probe-timeout 0.5s`]);
});
