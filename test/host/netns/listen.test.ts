import { expect, test } from '@jest/globals';
import { useCluster } from '../../support/network/use-cluster.ts';
import { vips } from '../../support/network/layout.ts';
import { startProxies } from './traffic.ts';
import { type Agent, startAgent, vipnat, waitUntil } from '../../support/host/vipnat.ts';

const vipArguments = ['--vip', vips.ipv4];
const vip = `${vips.ipv4}:6443`;

let agent: Agent;

const cluster = useCluster('all tests', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
  agent = await startAgent(cluster, 'm1', vipArguments);
});

/** What a person on m1 gets, with the status in front. */
async function ask(path: string): Promise<string> {
  const url = `http://127.0.0.1:10268${path}`;
  const command = ['curl', '--silent', '--write-out', '%{http_code}', '--max-time', '5', url];
  const { stdout } = await cluster.run('m1', command);
  return `${stdout.slice(-3)} ${stdout.slice(0, -3)}`;
}

/** Waits until /metrics has this line. */
async function waitForMetric(line: string): Promise<void> {
  let last = '';
  await waitUntil(
    async () => (last = await ask('/metrics')).split('\n').includes(line),
    () => `/metrics has no ${line}:\n${last}`,
  );
}

test('a running agent says that it is alive and ready, and its status as vipnat status does', async () => {
  await waitUntil(
    async () => (await ask('/readyz')) === '200 ok\n',
    () => agent.log,
  );
  expect(await ask('/healthz')).toBe('200 ok\n');
  const served = JSON.parse((await ask('/status')).slice(4)) as { agent: object; vips: object[] };
  const { stdout } = await vipnat(cluster, 'm1', ['status', '--json', ...vipArguments]);
  const printed = JSON.parse(stdout) as { agent: object; vips: object[] };
  expect(served.agent).toEqual(printed.agent);
  expect(served.agent).toMatchObject({ running: true, pid: agent.pid });
  expect(served).toMatchObject({ inSync: true, vips: [{ vip, held: true, mode: 'service-chain' }] });
  // The agent says nothing of Services.
  expect([...Object.keys(served), 'balancer']).toEqual(Object.keys(printed));
  expect(await ask('/')).toMatch(/^404 /);
});

test('an apiserver that goes and a hook that is taken away are seen in the metrics', async () => {
  await waitForMetric(`vipnat_vip_mode{vip="${vip}",mode="service-chain"} 1`);
  await waitForMetric(`vipnat_vip_apiservers{vip="${vip}"} 3`);
  await cluster.shell('m3', 'iptables-nft -I INPUT -p tcp --dport 6443 -j REJECT --reject-with tcp-reset');
  await waitForMetric(`vipnat_vip_apiservers{vip="${vip}"} 2`);
  await waitForMetric(`vipnat_vip_bypass{vip="${vip}"} 1`);
  const text = await ask('/metrics');
  expect(text).toMatch(/^vipnat_apiserver_state\{apiserver="[^"]+",state="dead"\} 1$/m);
  expect(text).toMatch(/^vipnat_apiserver_deaths_total\{apiserver="[^"]+"\} 1$/m);
  await cluster.shell('m1', 'iptables-nft -t nat -F OUTPUT');
  await waitForMetric('vipnat_writes_total{reason="repair"} 1');
  await waitForMetric('vipnat_rules_in_sync 1');
});
