import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { Administrator } from '../install/administrator.ts';
import { beforeAll, afterAll, describe, test, expect } from '@jest/globals';
import { excludeMasters, waitForServices, hastenReuse } from '../../../../tools/lab/services/install.ts';
import {
  createPods,
  waitForAddress,
  askWeb,
  findHolder,
  createWeb,
  removeWeb,
  waitForNoHolder,
} from '../../../../tools/lab/services/web.ts';
import { listSteps, follow, readCommand } from '../../../support/documents/typing.ts';
import { listCrashes } from '../pods/agents.ts';
import { testServicesFaults } from './services-faults.ts';
import { testCutOffNode } from './services-cut-off.ts';
import { testRefusedPool } from './services-refused-pool.ts';
import { testGatedDeployment } from './gated-deployment.ts';
import { testLocalPolicy } from './services-local.ts';
import { testWays } from './services-ways.ts';
import { testOrderlyShutdown } from './services-shutdown.ts';
import { testUpgrade } from './services-upgrade.ts';
import { nodes } from '../../../../tools/lab/nodes/hosts.ts';
import { parseDocument } from '../../../support/documents/document.ts';
import { readFileSync } from 'node:fs';
import { runShell } from '../../../../tools/lab/machines/machine.ts';

const page = 'docs/quickstart.md';

/** On masters, which hold no address: so a holder can be lost without a pod. */
const onMasters = { 'node-role.kubernetes.io/control-plane': '' };

/** With a choice of four, each answers more than a twelfth but once in some 10^7 times. */
const requests = 120;

/** Tests that the quickstart for Services leads to an address that works, what becomes of it when parts fail, and that all goes again. */
export function testServices(lab: () => NodeLab): void {
  let first: Administrator;

  beforeAll(async () => {
    await excludeMasters(lab());
    first = await Administrator.create(lab(), 'm1', {});
    for (const [name, text] of Object.entries(readFiles()))
      await first.shell(`cat >${name} <<'END'\n${text}\nEND`);
    await createPods(lab(), { name: 'web', nodeSelector: onMasters });
  });

  afterAll(async () => {
    await first.leave();
  });

  describe('the quickstart', () => {
    test.each(listSteps(page, 'Five steps'))('$name', async ({ commands }) => {
      for (const command of commands) await follow(page, command, first.type);
    });
  });

  test('controllers and balancers are ready, and none of their containers has crashed', async () => {
    await waitForServices(lab());
    expect(await listCrashes(lab(), [], { namespace: 'vipnat-system', pods: '' })).toEqual([]);
  });

  test.each(['client', 'worker', 'worker2', 'm1', 'pod-worker'])(
    'the address answers %s, each pod in its share',
    async (place) => {
      const { pods, failed } = await askWeb(lab(), place, await waitForAddress(lab(), 'web'), requests);
      expect({ failed, pods: Object.keys(pods).length }).toEqual({ failed: 0, pods: 4 });
      for (const share of Object.values(pods)) expect(share).toBeGreaterThan(requests / 12);
    },
  );

  test('a node that is excluded from load balancers holds no address', async () => {
    const holder = await findHolder(lab(), await waitForAddress(lab(), 'web'));
    expect(['worker', 'worker2']).toContain(holder);
  });

  testServicesFaults(lab);

  testCutOffNode(lab);

  testRefusedPool(lab);

  testGatedDeployment(lab);

  testLocalPolicy(lab);

  testWays(lab);

  testOrderlyShutdown(lab);

  testUpgrade(lab, () => first);

  test('a Service that is deleted gives its address back: on no node, and no VirtualIP of it', async () => {
    await createWeb(lab(), { name: 'brief', nodeSelector: onMasters, replicas: 1 });
    const address = await waitForAddress(lab(), 'brief');
    expect(await askWeb(lab(), 'client', address, 1)).toMatchObject({ failed: 0 });
    await removeWeb(lab(), 'brief');
    // It rests before it is given again.
    const users = ['get', 'virtualip', address, '--output', 'jsonpath={.spec.services}{.spec.leaving}'];
    expect(await lab().ask(users)).toBe('[][]');
    await waitForNoHolder(lab(), address);
    const { failed } = await askWeb(lab(), 'client', address, 1);
    expect(failed).toBe(1);
  });

  test('is taken away as the page says: no object, table, file or address of it is left', async () => {
    await lab().ask(['delete', 'deployment', 'web', '--namespace', 'default']);
    await hastenReuse(lab());
    for (const what of ['service', 'addresspool', '-f services'])
      await first.shell(readCommand(page, `kubectl delete ${what}`));
    for (const { name } of nodes) {
      const each = await Administrator.create(lab(), name, {});
      // On masters there is an agent, whose rules stay.
      await each.shell(`vipnat cleanup || true\n${readCommand(page, 'rm -r /run/vipnat-lb')}`);
      await each.leave();
    }
    await expectNoTraces(lab());
  });
}

/** The file that the page has somebody write. */
function readFiles(): Record<string, string> {
  const { code } = parseDocument(page, readFileSync(page, 'utf8'));
  const service = code.find(({ text }) => text.startsWith('apiVersion: v1\nkind: Service\n'));
  if (service === undefined) throw new Error(`${page} has no Service`);
  return { 'service.yaml': service.text };
}

/** What nodes and API have of Services' programs. */
async function expectNoTraces(lab: NodeLab): Promise<void> {
  const kinds = ['customresourcedefinitions', 'clusterroles', 'clusterrolebindings', 'namespaces'];
  const objects = await lab.ask(['get', kinds.join(','), '--output', 'name']);
  // What Kubernetes' own specs need of a lab is called vipnat-lab.
  expect(objects.split('\n').filter((name) => /vipnat(?!-lab)/.test(name))).toEqual([]);
  const script = `nft list tables | grep vipnat-lb || true
ip -o address show to 10.77.0.200/29
ls -d /run/vipnat-lb 2>/dev/null || true
pgrep --full 'keepalived.*vipnat-lb' || true`;
  for (const { name } of nodes)
    expect({ name, left: await runShell(lab.machine(name), script) }).toEqual({ name, left: '' });
}
