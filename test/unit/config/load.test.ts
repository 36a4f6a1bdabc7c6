import { describe, test, expect } from '@jest/globals';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../support/network/own-folder.ts';
import { type Flags, readConfig, type Environment } from '../../../config/load.ts';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';

const folder = makeFolder('config');

const readFlagsOnly = (flags: Flags) => readConfig({ flags, environment: {}, file: undefined });
const readVariables = (environment: Environment) => readConfig({ flags: {}, environment, file: undefined });

async function writeConfig(text: string | Buffer): Promise<string> {
  const file = join(folder, `${Math.random()}.yaml`);
  await writeFile(file, text);
  return file;
}

describe('a configuration', () => {
  test('without any source has the defaults', async () => {
    expect(await readFlagsOnly({})).toEqual({
      config: {
        ...ordinaryConfig,
        vips: [],
        listen: { family: 'ipv4', address: '127.0.0.1', port: 10_268 },
      },
      problems: [],
      unreadable: new Set(),
      given: new Set(),
    });
  });

  test('takes several VIPs of both families, with port 6443 unless given, in the order given', async () => {
    const { config, problems } = await readFlagsOnly({ vip: ['10.0.0.50:8443', 'fd00:0:0::50,10.0.0.51'] });
    expect(problems).toEqual([]);
    expect(config.vips).toEqual([
      { family: 'ipv4', address: '10.0.0.50', port: 8443 },
      { family: 'ipv6', address: 'fd00::50', port: 6443 },
      { family: 'ipv4', address: '10.0.0.51', port: 6443 },
    ]);
  });

  test('has endpoints once each, in order, and the ClusterIP by family', async () => {
    const { config, problems } = await readFlagsOnly({
      vip: ['10.0.0.50', 'fd00::50'],
      endpoints: ['10.0.0.12:6443, 10.0.0.11:6443', '10.0.0.12:6443'],
      clusterIp: ['10.96.0.1', 'fd00:10:96::1'],
    });
    expect(problems).toEqual([]);
    expect(config.endpoints.map(({ address }) => address)).toEqual(['10.0.0.11', '10.0.0.12']);
    expect(config.clusterIps).toEqual({ ipv4: '10.96.0.1', ipv6: 'fd00:10:96::1' });
  });

  test('takes the flag before the variable, that before the file, and that before the default', async () => {
    const file = await writeConfig('mode: direct\nproxyMode: none\nmasquerade: none\nvip: 10.0.0.1\n');
    const { config, problems } = await readConfig({
      flags: { mode: 'cluster-ip', vip: ['10.0.0.3'] },
      environment: { VIPNAT_MODE: 'service-chain', VIPNAT_PROXY_MODE: 'ipvs', VIPNAT_VIP: '10.0.0.2' },
      file,
    });
    expect(problems).toEqual([]);
    expect(config).toMatchObject({
      ...{ mode: 'cluster-ip', proxyMode: 'ipvs', masquerade: 'none', logLevel: 'info' },
    });
    expect(config.vips.map(({ address }) => address)).toEqual(['10.0.0.3']);
  });

  test('counts an empty variable as not set', async () => {
    expect(await readVariables({ VIPNAT_VIP: '', VIPNAT_NOTHING: '' })).toMatchObject({
      problems: [],
      config: { vips: [] },
    });
  });
});

test('all problems are told at once, each with its source, and the values they spoil are known', async () => {
  const file = await writeConfig(
    'logLevel: 5\nmasquerade:\nclusterIp: {a: 1}\nvip:\n  - 10.0.0.50\n  - 10.0.0.999\n',
  );
  const { problems, unreadable } = await readConfig({
    flags: { mode: 'fast' },
    environment: { VIPNAT_ENDPOINTS: '10.0.0.11', VIPNAT_PROXY_MDOE: 'ipvs' },
    file,
  });
  expect(problems).toEqual([
    'VIPNAT_PROXY_MDOE in the environment is not an option. Did you mean VIPNAT_PROXY_MODE?',
    `logLevel 5 is none of error, warn, info, debug (from ${file} line 1). Example: logLevel: debug`,
    `masquerade must be text, not nothing (from ${file} line 2). Example: masquerade: kube-mark`,
    `clusterIp must be text, not a map (from ${file} line 3). Example: clusterIp: 10.96.0.1`,
    `vip 10.0.0.999 is not an IP address (from ${file} line 6). Example: vip: 10.0.0.50:6443`,
    '--mode fast is none of auto, service-chain, cluster-ip, direct. Example: --mode direct',
    expect.stringContaining('--endpoints 10.0.0.11 needs a port from 1 to 65535 (from VIPNAT_ENDPOINTS)'),
  ]);
  expect(unreadable).toEqual(new Set(['clusterIp', 'endpoints', 'logLevel', 'masquerade', 'mode', 'vip']));
});

describe('an unknown variable', () => {
  test('that nothing is near to points to the help', async () => {
    expect((await readVariables({ VIPNAT_COLOUR_OF_SKY: 'blue' })).problems).toEqual([
      'VIPNAT_COLOUR_OF_SKY in the environment is not an option. See vipnat run --help',
    ]);
  });

  test('that the kubelet sets for a Service named vipnat or vipnat-metrics is none of ours', async () => {
    const links = {
      VIPNAT_SERVICE_HOST: '10.96.1.1',
      VIPNAT_SERVICE_PORT: '10268',
      VIPNAT_SERVICE_PORT_METRICS: '10268',
      VIPNAT_PORT: 'tcp://10.96.1.1:10268',
      VIPNAT_PORT_10268_TCP: 'tcp://10.96.1.1:10268',
      VIPNAT_PORT_10268_TCP_PROTO: 'tcp',
      VIPNAT_METRICS_SERVICE_HOST: '10.96.1.2',
      VIPNAT_METRICS_PORT: 'tcp://10.96.1.2:1',
    };
    expect((await readVariables(links)).problems).toEqual([]);
    expect((await readVariables({ VIPNAT_PORT: '6443' })).problems).toHaveLength(1);
  });
});

describe('the file', () => {
  const readFile = (file: string) => readConfig({ flags: {}, environment: {}, file });

  test('that is missing, a folder or endless is one problem that says so', async () => {
    const problems = await Promise.all(
      [join(folder, 'none.yaml'), folder, '/dev/zero'].map(async (file) => (await readFile(file)).problems),
    );
    expect(problems).toEqual([
      [`--config ${join(folder, 'none.yaml')} cannot be read: there is no such file`],
      [`--config ${folder} cannot be read: it is a folder`],
      ['--config /dev/zero is longer than 64 KiB: not a vipnat file'],
    ]);
  });

  test('of 64 KiB is read, of one byte more it is not', async () => {
    const text = 'vip: 10.0.0.50\n'.padEnd(64 * 1024, '#');
    expect((await readFile(await writeConfig(text))).config.vips).toHaveLength(1);
    expect((await readFile(await writeConfig(`${text}#`))).problems).toHaveLength(1);
  });

  test('that is not UTF-8 is refused', async () => {
    const file = await writeConfig(Buffer.from([0xff, 0xfe, 0x0a]));
    expect((await readFile(file)).problems).toEqual([
      `--config ${file} cannot be read: it is not UTF-8 text`,
    ]);
  });

  test('that cannot be read leaves unknown what only it could give, and nothing else', async () => {
    const { unreadable } = await readConfig({ flags: { vip: ['10.0.0.50'] }, environment: {}, file: folder });
    expect([unreadable.has('vip'), unreadable.has('endpoints')]).toEqual([false, true]);
  });
});
