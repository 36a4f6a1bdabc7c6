import { listApiservers, vips } from '../../support/network/layout.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { writeFileSync, readFileSync } from 'node:fs';
import { join, basename } from 'node:path';
import { makeFolder } from '../../support/network/own-folder.ts';
import { expect, describe, test } from '@jest/globals';
import { startAgent, vipnat } from '../../support/host/vipnat.ts';
import { createCertificates } from '../../../tools/lab/certificates/certificates.ts';
import { writeKubeconfig } from '../../support/network/kubeconfig.ts';

interface Loaded {
  /** JavaScript and native files, by their names. */
  readonly files: readonly string[];
  /** Node's own modules, without their `node:`. */
  readonly modules: readonly string[];
  /** Whether V8 optimizes what runs often. */
  readonly optimizes: boolean;
}

/** Loaded into the process before vipnat. The bit is kOptimized of V8's OptimizationStatus (src/runtime/runtime.h). */
const recorder = `process.on('exit', () => {
  const files = Object.keys(require.cache);
  const modules = process.moduleLoadList.flatMap((name) => /^NativeModule ((?!internal).*)/.exec(name)?.[1] ?? []);
  const addOne = (number) => number + 1;
  for (let number = 0; number < 1e7; number = addOne(number));
  require('node:v8').setFlagsFromString('--allow-natives-syntax');
  const optimizes = (new Function('f', 'return %GetOptimizationStatus(f)')(addOne) & 16) !== 0;
  require('node:fs').writeFileSync(process.env.LOADED_FILE, JSON.stringify({ files, modules, optimizes }));
});`;

const apiservers = listApiservers('ipv4')
  .map(({ address }) => `${address}:6443`)
  .join();

const folder = makeFolder('loaded');

const cluster = useCluster('all tests', () => {
  writeFileSync(join(folder, 'recorder.cjs'), recorder);
});

const record = (): Record<string, string> => ({
  NODE_OPTIONS: `--require=${join(folder, 'recorder.cjs')}`,
  LOADED_FILE: join(folder, 'loaded.json'),
});

function readLoaded(): Loaded {
  const { files, ...rest } = JSON.parse(readFileSync(join(folder, 'loaded.json'), 'utf8')) as Loaded;
  return { files: files.map((file) => basename(file)).sort(), ...rest };
}

/** What an agent has loaded that balances and then ends. */
async function runAgent(args: readonly string[]): Promise<Loaded> {
  const agent = await startAgent(cluster, 'm1', ['--vip', vips.ipv4, ...args], {
    ...process.env,
    ...record(),
  });
  expect(await agent.stop()).toBe(0);
  return readLoaded();
}

const agentFiles = ['execa.js', 'native.js', 'netlink.js', 'node.napi.node', 'prom-client.js'];

describe('what is loaded', () => {
  test('by plan --offline: the program alone, and no module of Node for networks', async () => {
    const words = ['plan', '--offline', '--vip', vips.ipv4, '--proxy-mode', 'iptables'];
    expect(await vipnat(cluster, 'm1', words, record())).toMatchObject({ exitCode: 0, stderr: '' });
    const { files, modules, optimizes } = readLoaded();
    expect(optimizes).toBe(true);
    expect(files).toEqual(['recorder.cjs', 'start.js', 'vipnat.js']);
    const slow = ['dns', 'fs/promises', 'http', 'https', 'net', 'tls', 'tty', 'zlib'];
    expect(modules.filter((name) => slow.includes(name))).toEqual([]);
  });

  test('by an agent without credentials: nothing that reads credentials, and no optimizing compiler', async () => {
    const { files, optimizes } = await runAgent(['--endpoints', apiservers]);
    expect(optimizes).toBe(false);
    expect(files).toEqual([...agentFiles, 'recorder.cjs', 'start.js', 'vipnat.js', 'winston.js'].sort());
  });

  test('by an agent with credentials: what reads them, and no client of HTTP of its own', async () => {
    const { authority } = await createCertificates(folder);
    const kubeconfig = writeKubeconfig(folder, 'https://127.0.0.1:1', authority);
    const { files, modules } = await runAgent(['--endpoints', apiservers, '--kubeconfig', kubeconfig]);
    expect(files).toContain('client-node.js');
    expect(modules.filter((name) => ['http2', 'stream/web', 'worker_threads'].includes(name))).toEqual([]);
  });
});
