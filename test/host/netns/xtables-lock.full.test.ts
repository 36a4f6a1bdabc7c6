import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { useShims } from '../../support/host/shims.ts';
import { sleep, vipnat, waitUntil } from '../../support/host/vipnat.ts';
import { listApiservers } from '../../support/network/layout.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies, vipArguments } from './traffic.ts';

const shims = useShims();

const cluster = useCluster('all tests', async () => {
  await startProxies(cluster, ['m1'], 'legacy', ['ipv4']);
});

test('a stranger who holds the xtables lock delays iptables-legacy, and nothing else happens', async () => {
  const namespace = cluster.namespaceOf('m1');
  const command = ['flock', '--no-fork', '/run/xtables.lock', 'sh', '-c', 'echo held; exec sleep 100'];
  const stranger = cluster.namespaces.start(namespace, command);
  if (stranger.stdout !== null) await once(stranger.stdout, 'data');
  const called = join(shims.onlyPath, 'called');
  shims.wrap('iptables-legacy-restore', `: >'${called}'; exec "$TOOL" "$@"`);
  const running = vipnat(cluster, 'm1', ['run', '--once', ...vipArguments], { PATH: shims.path });
  await waitUntil(() => existsSync(called), 'iptables-legacy-restore was not called');
  await sleep(500);
  expect(await cluster.namespaces.shell(namespace, 'iptables-legacy-save -t nat')).not.toContain('VIPNAT');
  stranger.kill('SIGKILL');
  const count = listApiservers('ipv4').length;
  const stderr = `10.77.0.50:6443 is balanced, and its rules are in sync (service-chain, ${count} apiservers)`;
  expect(await running).toMatchObject({ exitCode: 0, stderr });
  expect(await vipnat(cluster, 'm1', ['check', ...vipArguments])).toMatchObject({ exitCode: 0 });
});
