import { fileURLToPath } from 'node:url';
import { vips, listApiservers } from '../../support/network/layout.ts';
import { describe, test, expect } from '@jest/globals';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { useCluster } from '../../support/network/use-cluster.ts';
import { makeFolder } from '../../support/network/own-folder.ts';
import { createCertificates } from '../../../tools/lab/certificates/certificates.ts';
import { writeKubeconfig } from '../../support/network/kubeconfig.ts';
import { startAgent, vipnat } from '../../support/host/vipnat.ts';
import { expectBalanced, expectAnswers, client } from './traffic.ts';

const program = fileURLToPath(new URL('../../support/network/kube-api.ts', import.meta.url));
const [m1 = '', m2 = '', m3 = ''] = listApiservers('ipv4').map(({ address }) => address);

/** Beside m1's apiserver, which has nothing but its name to say. */
const apiPort = 16_443;

describe('an agent with a kubeconfig, on a host without kube-proxy', () => {
  const folder = makeFolder('kube-api');
  let api: ChildProcess;
  let args: string[] = [];

  const tell = async (line: string) => {
    const answer = once(api.stdout ?? api, 'data');
    api.stdin?.write(`${line}\n`);
    await answer;
  };

  const cluster = useCluster('each test', async () => {
    const certificates = await createCertificates(folder);
    const { certificate, key } = certificates.serving('m1');
    api = cluster.start('m1', [...[process.execPath, program, m1, String(apiPort), certificate, key]]);
    api.stderr?.pipe(process.stderr);
    if (api.stdout !== null) await once(api.stdout, 'data');
    await tell(`list ${m1} ${m2} ${m3}`);
    const kubeconfig = writeKubeconfig(folder, `https://${m1}:${apiPort}`, certificates.authority);
    args = ['--vip', vips.ipv4, '--kubeconfig', kubeconfig];
  });

  test('balances over the apiservers that the API lists, and follows it when they change', async () => {
    const agent = await startAgent(cluster, 'm1', args);
    await agent.waitForLine(
      /direct to .*:6443, .*:6443, .*:6443: .*; listed in the API's EndpointSlice kubernetes/,
    );
    await expectBalanced(cluster, client);
    const { stdout } = await vipnat(cluster, 'm1', ['plan', '--json', ...args]);
    expect(JSON.parse(stdout)).toMatchObject({
      inSync: true,
      vips: [{ reason: expect.stringContaining("the API's EndpointSlice kubernetes") }],
    });
    await tell(`list ${m1} ${m2}`);
    await agent.waitForLine(/changes apiservers, now direct to [\d.]+:6443, [\d.]+:6443: /);
    await expectAnswers(cluster, client, ['m1', 'm2']);
    expect(await agent.stop()).toBe(0);
  });

  test('leaves the rules as they are while the API answers 500, and so do plan and check (I10)', async () => {
    const agent = await startAgent(cluster, 'm1', args);
    await agent.waitForLine(/follows the API at/);
    const readRules = () => cluster.shell('m1', 'iptables-nft-save | grep ^-A');
    const rules = await readRules();
    await tell('answer failing');
    await agent.waitForLine(
      /vipnat cannot follow the Kubernetes API: .* is answered with 500: .*The apiservers that the API last named stay in use/,
    );
    expect(await readRules()).toBe(rules);
    expect(await vipnat(cluster, 'm1', ['check', ...args])).toMatchObject({ exitCode: 0, stderr: '' });
    await expectBalanced(cluster, client);
    await tell('answer well');
    await agent.waitForLine(/follows the API at .* again after/);
    expect(agent.listLines(/ warn {2}\[API_[A-Z_]+\] vipnat cannot follow/)).toHaveLength(1);
    expect(await readRules()).toBe(rules);
    expect(await agent.stop()).toBe(0);
  });

  test('goes on by --endpoints when it starts while nobody answers, and check says so in one sentence', async () => {
    await tell('answer forbidding');
    const given = [...args, '--endpoints', `${m1}:6443,${m2}:6443`];
    const { exitCode, stderr } = await vipnat(cluster, 'm1', ['run', '--once', ...given]);
    expect([exitCode, stderr.match(/^.*403.*allow it to get, list and watch.*$/gm)?.length]).toEqual([0, 1]);
    await expectAnswers(cluster, client, ['m1', 'm2']);
  });
});
