import { type Flags, type ConfigReading, readConfig } from '../../../config/load.ts';
import { test, expect, describe } from '@jest/globals';

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

test.each(['m1', 'ip-10-0-0-11.eu.compute.internal', 'a'.repeat(253)])(
  'the name of a node can be %s',
  async (nodeName) => {
    expect(await read({ nodeName })).toMatchObject({ problems: [], config: { nodeName } });
  },
);

test.each(['', 'M1', 'm_1', '-m1', 'm1.', 'a..b', 'm1\n', 'a'.repeat(254)])(
  'the name of a node cannot be %j',
  async (nodeName) => {
    expect((await read({ nodeName })).problems).toEqual([
      expect.stringMatching(/^--node-name \S.* is not a name of a node: .* Example: --node-name master-1$/),
    ]);
  },
);

test.each(['/run/\0', '/run/a\nb', '/run/\u001b[2J'])('a folder cannot be %j', async (runDir) => {
  expect((await read({ runDir })).problems).toEqual([
    expect.stringMatching(/^--run-dir \S+ has a control character\. Example: /),
  ]);
});

describe('--listen', () => {
  test.each([
    ['127.0.0.1:9000', { family: 'ipv4', address: '127.0.0.1', port: 9000 }],
    ['0.0.0.0:10268', { family: 'ipv4', address: '0.0.0.0', port: 10_268 }],
    ['[::]:10268', { family: 'ipv6', address: '::', port: 10_268 }],
    ['[FD00:0::1]:10268', { family: 'ipv6', address: 'fd00::1', port: 10_268 }],
    ['off', null],
  ])('takes %s', async (listen, value) => {
    const { config, problems } = await read({ listen });
    expect([config.listen, problems]).toEqual([value, []]);
  });

  test.each([
    ['10268', 'is not an IP address'],
    ['localhost:10268', 'is not an IP address'],
    ['127.0.0.1', 'needs a port from 1 to 65535'],
    ['127.0.0.1:0', 'needs a port from 1 to 65535'],
    ['::1', 'needs brackets and a port: [ADDR]:PORT'],
    ['224.0.0.1:10268', 'is a multicast address, not one host'],
    ['0.0.0.1:10268', 'is the unspecified address: no host has it'],
    ['[fe80::1]:10268', 'is a link-local address: it means another host on each link'],
  ])('refuses %s in one line', async (listen, complaint) => {
    const { problems } = await read({ listen });
    expect(problems).toEqual([`--listen ${listen} ${complaint}. Example: --listen 0.0.0.0:10268`]);
  });

  test('refuses a virtual IP with its port: whoever asks there gets to an apiserver', async () => {
    const { problems } = await read({ vip: ['10.0.0.50'], listen: '10.0.0.50:6443' });
    expect(problems).toEqual([
      '--listen 10.0.0.50:6443 is a virtual IP that vipnat balances. Give another port',
    ]);
    expect((await read({ vip: ['10.0.0.50'], listen: '10.0.0.50:10268' })).problems).toEqual([]);
  });
});
