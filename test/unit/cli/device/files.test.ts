import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../../support/network/own-folder.ts';
import { describe, test, expect } from '@jest/globals';
import { readDescription, readCredentials, readWanted } from '../../../../cli/device/files.ts';
import { parseRange } from '../../../../lib/net.ts';
import { loadDriver } from '../../../../devices/drivers.ts';
import { chooseSites } from '../../../../cli/device/site.ts';

const folder = makeFolder('device-files');

let count = 0;
function write(text: string, ending = 'yaml'): string {
  count += 1;
  const path = join(folder, `${count}.${ending}`);
  writeFileSync(path, text);
  return path;
}

const head = 'apiVersion: vipnat.io/v1alpha1\nkind: LoadBalancerDevice\nmetadata: { name: edge }\n';

describe('a description', () => {
  test('is read, with what the controller adds to it, from a file with other objects', async () => {
    const spec = [
      'spec:\n  driver: alteon\n  cluster: prod\n  units: [https://10.0.0.11, https://10.0.0.12]\n',
      '  targets: pods\n  credentialsSecret: { name: edge }\n  addresses: [10.0.9.0/30]\n',
      '  options: { partition: "2" }\nstatus: { units: [] }\n',
    ].join('');
    const path = write(`kind: Secret\ndata: {}\n---\n${head}${spec}`);
    expect(await readDescription(path)).toEqual({
      ...{ name: 'edge', driver: 'alteon', cluster: 'prod' },
      units: ['https://10.0.0.11', 'https://10.0.0.12'],
      addresses: [parseRange('10.0.9.0/30')],
      options: { partition: '2' },
    });
  });

  test.each([
    ['spec: [', /is not YAML/],
    ['kind: Service\n', /has 0 objects of the kind LoadBalancerDevice/],
    [head.replace('v1alpha1', 'v1'), /apiVersion is not vipnat\.io\/v1alpha1/],
    [head, /spec is missing\. It has driver, cluster and units/],
    [`${head}spec: { units: [a] }`, /spec\.cluster is missing, or not a text\. Example: prod/],
    [`${head}spec: { cluster: Prod_1, units: [a] }`, /spec\.cluster is not a name of at most 40/],
    [`${head}spec: { cluster: prod }`, /spec\.units is missing, or not a list/],
    [`${head}spec: { cluster: prod, units: [a, b, c] }`, /spec\.units is not a list of one unit, or/],
    [`${head}spec: { cluster: prod, units: [a], addresses: [10.x] }`, /spec\.addresses\.0 is not a range/],
    [`${head}spec: { cluster: prod, unit: [a] }`, /spec\.unit is not a field\. Did you mean units\?/],
    [
      `${head}spec: { cluster: prod, units: [a], options: { vrid: 61 } }`,
      /spec\.options\.vrid is not a text\. The API/,
    ],
  ])('that is wrong is refused: %j', async (text, message) => {
    await expect(readDescription(write(text))).rejects.toMatchObject({
      code: 'DEVICE_SETTINGS_INVALID',
      message: expect.stringMatching(message),
    });
  });

  test('that is not there is refused', async () => {
    await expect(readDescription(join(folder, 'none.yaml'))).rejects.toThrow('there is no such file');
  });
});

describe('credentials', () => {
  test('are those of a folder, of a file, or of the environment', async () => {
    writeFileSync(join(folder, 'username'), 'vipnat\n');
    writeFileSync(join(folder, 'password'), 'two words ');
    writeFileSync(join(folder, 'ca.crt'), 'PEM');
    const credentials = { username: 'vipnat', password: 'two words ' };
    expect(await readCredentials(folder, {})).toEqual({ credentials, ca: 'PEM' });
    const lines = write('username: vipnat\npassword: two words \n', 'txt');
    expect(await readCredentials(lines, {})).toEqual({ credentials, ca: null });
    const environment = { VIPNAT_DEVICE_USERNAME: 'vipnat', VIPNAT_DEVICE_PASSWORD: 'two words ' };
    expect(await readCredentials(null, environment)).toEqual({ credentials, ca: null });
    expect(await readCredentials(null, {})).toEqual({ credentials: null, ca: null });
  });

  test.each([
    ['username: vipnat\n', /has to have both/],
    ['username: vipnat\nhunter2\n', /line 2 is neither/],
  ])('that are wrong are refused, and not printed: %j', async (text, message) => {
    const refusal = readCredentials(write(text, 'txt'), {});
    await expect(refusal).rejects.toThrow(message);
    await expect(refusal).rejects.not.toThrow(/hunter2/);
  });
});

describe('a wanted balancer', () => {
  const name = 'namespace: shop\nname: web\nuid: u1\n';

  test('is read in both forms of members', async () => {
    const path = write(
      `${name}addresses: [10.0.9.10]\nlisteners: [{ port: 80, members: ["[fd00:0::1]:8080", { address: 10.1.2.3, port: 81, weight: 0 }] }]`,
    );
    expect(await readWanted(path, 'prod')).toEqual({
      id: { cluster: 'prod', namespace: 'shop', name: 'web', uid: 'u1' },
      addresses: [{ family: 'ipv4', text: '10.0.9.10' }],
      method: 'rr',
      affinityS: null,
      listeners: [
        {
          protocol: 'tcp',
          port: 80,
          members: [
            { address: { family: 'ipv6', text: 'fd00::1' }, port: 8080, weight: 1 },
            { address: { family: 'ipv4', text: '10.1.2.3' }, port: 81, weight: 0 },
          ],
        },
      ],
    });
  });

  test.each([
    ['', /it is|Invalid|missing/],
    ['namespace: a\nname: Web\nuid: u1\naddresses: [1.1.1.1]\nlisteners: [{port: 80}]', /name is not a name/],
    [`${name}addresses: []\nlisteners: [{port: 80}]`, /addresses is empty/],
    [`${name}addresses: [edge]\nlisteners: [{port: 80}]`, /addresses\.0 is not an IP address/],
    [`${name}addresses: [10.0.0.1]\nlisteners: [{port: 0}]`, /listeners\.0\.port is not a port/],
    [`${name}addresses: [10.0.0.1]\nlisteners: [{port: 80}, {port: 80}]`, /has tcp\/80 twice/],
    [`${name}addresses: [10.0.0.1]\nmethod: fast\nlisteners: [{port: 80}]`, /method is none of rr, lc, hash/],
    [
      `${name}addresses: [10.0.0.1]\nlisteners: [{port: 80, members: [10.0.0.2]}]`,
      /listeners\.0\.members\.0 is not a member/,
    ],
  ])('that is wrong is refused: %j', async (text, message) => {
    await expect(readWanted(write(text), 'prod')).rejects.toMatchObject({
      code: 'DEVICE_SETTINGS_INVALID',
      message: expect.stringMatching(message),
    });
  });
});

describe('a driver', () => {
  test.each([
    ['alteonn', /"alteonn" is not a driver of vipnat\. Did you mean alteon\?/],
    ['./none.mjs', /\.\/none\.mjs cannot be loaded: Cannot find module/],
  ])('%s, which there is not, is refused', async (word, message) => {
    await expect(loadDriver(word)).rejects.toMatchObject({
      code: 'DRIVER_NOT_LOADED',
      message: expect.stringMatching(message),
    });
  });

  test('whose module waits at its top level, or exports another name, is refused', async () => {
    await expect(loadDriver(write('await 1; export const createDriver = 1;', 'mjs'))).rejects.toThrow(
      /cannot be loaded: .*top-level await/,
    );
    await expect(loadDriver(write('export const create = 1;', 'mjs'))).rejects.toThrow(
      'exports no function createDriver',
    );
  });

  test('that lacks a method is refused when it is made', async () => {
    const path = write(
      "export const createDriver = () => ({ list() {}, capabilities: { methods: ['rr'] } });",
      'mjs',
    );
    const create = await loadDriver(path);
    const settings = { name: 'edge', cluster: 'prod', units: [], credentials: null, ca: null, options: {} };
    expect(() => create(settings, {} as never)).toThrow('lacks plan, ensure, remove, readState');
  });
});

test('the suite uses the addresses of a device, if there are enough', () => {
  const ranges = (...texts: string[]) => texts.flatMap((text) => parseRange(text) ?? []);
  const sites = chooseSites(ranges('10.0.9.0/24', 'fd00::1'), [80, 81, 82]);
  expect(sites.ipv4[29]).toEqual({ family: 'ipv4', text: '10.0.9.29' });
  expect([sites.ipv4.length, sites.ipv6.length, sites.ports]).toEqual([30, 1, [80, 81, 82]]);
  expect(() => chooseSites(ranges('10.0.9.0/30'), null)).toThrow('has 4 addresses of IPv4');
  expect(chooseSites([], null).ipv4[0]).toEqual({ family: 'ipv4', text: '192.0.2.1' });
});
