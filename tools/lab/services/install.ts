import type { Family } from '../../../lib/net.ts';
import type { NodeLab } from '../nodes/node-lab.ts';
import { vipnatCommand } from '../components/agent.ts';
import { execa } from 'execa';
import { waitUntil } from '../nodes/ready.ts';
import { masters } from '../../../test/support/network/layout.ts';

/** Free addresses of the nodes' network, for Services. */
export const servicesPool: Readonly<Record<Family, string>> = {
  ipv4: '10.77.0.200-10.77.0.219',
  ipv6: 'fd77::c8-fd77::db',
};

/** Where Services' programs run. */
export const servicesNamespace = 'vipnat-system';

const rollouts = ['deployment/vipnat-controller', 'daemonset/vipnat-balancer'];

const excludedLabel = 'node.kubernetes.io/exclude-from-external-load-balancers';

/** What `vipnat manifest services` prints for a lab of real nodes, with more words where it shall be otherwise. */
export async function printServices(lab: NodeLab, ...more: readonly string[]): Promise<string> {
  const words = ['manifest', 'services', '--pool', servicesPool[lab.options.family], '--vip', lab.vip];
  const [program = '', ...rest] = vipnatCommand(...words, ...more);
  return (await execa(program, rest)).stdout;
}

/**
 * Installs what serves Services, by the printed manifest, on nodes that are labelled as kubeadm does it. All its pods are ready then,
 * and every node has reported.
 * @throws LabError that says what is missing
 */
export async function installServices(lab: NodeLab, ...more: readonly string[]): Promise<void> {
  await excludeMasters(lab);
  const input = await printServices(lab, ...more);
  await lab.ask(['apply', '--filename', '-'], { input });
  await waitForServices(lab);
  await waitUntil("the manifest's pool is there", async () => {
    const pools = await listNames(lab, ['get', 'addresspools']);
    return pools.includes('default') ? null : 'there is none';
  });
}

/** Labels masters as kubeadm does: they hold no addresses of Services. */
export async function excludeMasters(lab: NodeLab): Promise<void> {
  await lab.ask(['label', 'nodes', '--overwrite', ...masters.map(({ name }) => name), `${excludedLabel}=`]);
}

/** Waits until controllers and balancers are of the newest kind and ready, and every node has reported. */
export async function waitForServices(lab: NodeLab): Promise<void> {
  for (const name of rollouts) {
    await waitUntil(`${name} is ready`, async () => {
      const words = ['rollout', 'status', name, '--namespace', servicesNamespace, '--timeout=30s'];
      const { exitCode, stdout, stderr } = await lab.kubectl(words);
      return exitCode === 0 ? null : `${stdout}${stderr}`.trim();
    });
  }
  await waitUntil('every node has reported', async () => {
    const nodes = await listNames(lab, ['get', 'nodes']);
    const leases = await listNames(lab, ['get', 'leases', '--namespace', servicesNamespace]);
    const unresponsive = nodes.filter((node) => !leases.includes(`vipnat-lb-${node}`));
    return unresponsive.length === 0 ? null : `not yet: ${unresponsive.join(', ')}`;
  });
}

/**
 * Takes away what `installServices` has installed: Services of the class first, then pools, then the rest. The tables of the nodes
 * stay, and count for 30 s.
 */
export async function uninstallServices(lab: NodeLab): Promise<void> {
  const own = await listNames(
    lab,
    ['get', 'services', '--namespace', 'default'],
    '.spec.loadBalancerClass=="vipnat.io/lb"',
  );
  if (own.length > 0)
    await lab.ask(['delete', 'services', ...own, '--namespace', 'default', '--timeout=60s']);
  await hastenReuse(lab);
  await lab.ask(['delete', 'addresspools', '--all', '--timeout=50s']);
  const input = await printServices(lab);
  await lab.ask(['delete', '--filename', '-', '--ignore-not-found', '--timeout=120s'], {
    input,
    limitMs: 150_000,
  });
  await lab.ask(['label', 'nodes', ...masters.map(({ name }) => name), `${excludedLabel}-`]);
}

/** Addresses rest for a second before they are given again, and not for a minute: a pool goes only after that. */
export async function hastenReuse(lab: NodeLab): Promise<void> {
  for (const pool of await listNames(lab, ['get', 'addresspools'])) {
    const patch = JSON.stringify({ spec: { reuseAfter: '1s' } });
    await lab.ask(['patch', 'addresspool', pool, '--type=merge', `--patch=${patch}`]);
  }
}

async function listNames(lab: NodeLab, words: readonly string[], filter = ''): Promise<string[]> {
  const items = filter === '' ? '.items[*]' : `.items[?(@${filter})]`;
  const names = await lab.ask([...words, '--output', `jsonpath={${items}.metadata.name}`]);
  return names.split(' ').filter((name) => name !== '');
}
