import { vips } from '../../support/network/layout.ts';
import { SickHost } from './sick-host.ts';
import type { CommandResult } from '../../support/network/namespaces.ts';
import { beforeAll, afterAll, test, expect, describe } from '@jest/globals';
import { readSteps } from '../../support/documents/walkthrough.ts';
import { dirname } from 'node:path';
import { settingsFile, renderSettingsFile } from '../../../tools/release/packages/settings-file.ts';
import { listSteps, follow } from '../../support/documents/typing.ts';
import { expectBalanced, client } from './traffic.ts';
import { leaveAgentOut } from '../../support/doctor/snippets.ts';
import { waitUntil } from '../../support/jest/waiting.ts';

const page = 'docs/quickstart.md';

/** What stands in for kubeadm, which is no program of this machine. */
const kubeadm = /^kubeadm init /;

let host: SickHost;

async function type(command: string): Promise<CommandResult> {
  if (!kubeadm.test(command)) return await host.run(['bash', '-c', `cd /run && ${command}`]);
  await host.createCluster();
  const stdout = '\nYour Kubernetes control-plane has initialized successfully!\n\n';
  return { exitCode: 0, stdout, stderr: '' };
}

const useHost = (prepare: (made: SickHost) => Promise<unknown>) => {
  beforeAll(async () => {
    host = await SickHost.create('bare');
    await prepare(host);
  });
  afterAll(() => (host as SickHost | undefined)?.close());
};

function testPage(heading: string): void {
  test.each(listSteps(page, heading))('$name', async ({ commands }) => {
    for (const command of commands) await follow(page, command, type);
  });

  test('lead to a VIP that is balanced over all apiservers', async () => {
    await expectBalanced(host.cluster, client);
  });
}

test.each(['A new cluster', 'An existing cluster'])('%s takes seven steps at most', (heading) => {
  const steps = readSteps(page, heading);
  expect(steps.length).toBeLessThanOrEqual(7);
  expect(steps[0]?.commands[0]?.command).toMatch(/^vipnat doctor --vip /);
});

describe('the steps of a new cluster, taken one after the other on its first node', () => {
  // What the .deb and the .rpm bring.
  useHost((made) =>
    made.shell(`mkdir -p ${dirname(settingsFile)}
cat >${settingsFile} <<'END'
${renderSettingsFile()}END`),
  );

  testPage('A new cluster');
});

describe('the steps of an existing cluster, whose VIP keepalived alone holds, taken on its holder', () => {
  useHost(async (made) => {
    await made.createCluster();
    await made.shell(`vipnat keepalived --vip ${vips.ipv4} >/run/printed.conf 2>/dev/null
${leaveAgentOut} /run/printed.conf >/etc/keepalived/keepalived.conf
systemctl start keepalived
echo image >/run/vipnat-image-0.1.0-linux-amd64.tar`);
    await made.waitForVip();
  });

  testPage('An existing cluster');
});

describe('an agent that is started before there is a cluster', () => {
  useHost((made) =>
    made.shell(`vipnat keepalived --vip ${vips.ipv4} --output /etc/keepalived/keepalived.conf
systemctl start keepalived
systemctl start vipnat`),
  );

  test('lets this node’s apiserver answer at the VIP as soon as it is there, before kube-proxy is', async () => {
    await host.waitForVip();
    await host.createApiserver();
    const seat = host.cluster.seat('outside client');
    await waitUntil(
      async () => (await seat.request(vips.ipv4, 6443, 1)).apiservers['m1'] === 1,
      'm1 does not answer at the VIP',
    );
    const { apiservers, errors } = await seat.request(vips.ipv4, 6443, 20);
    expect({ apiservers, errors }).toEqual({ apiservers: { m1: 20 }, errors: {} });
  });
});
