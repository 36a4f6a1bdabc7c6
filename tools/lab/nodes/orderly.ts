/** Nodes that are shut down in order, as a machine's administrator does it: by systemd, logind and the kubelet. */
import type { NodeLab } from './node-lab.ts';
import { locateDisk } from './disk.ts';
import { writeUnits, hasUnits, removeUnits } from './units.ts';
import { join } from 'node:path';
import { waitUntil } from './ready.ts';
import { runShell } from '../machines/machine.ts';
import { writeFileSync, readFileSync } from 'node:fs';
import { stringify, parse } from 'yaml';
import { locateNodeComponents } from '../build/build.ts';
import { nodes } from './hosts.ts';

const configuration = '/etc/kubernetes/kubelet.yaml';

const periodNames = ['shutdownGracePeriod', 'shutdownGracePeriodCriticalPods'] as const;

/** Of a kubelet's configuration: as long as the kubelet holds a shutdown back, and the end of it that critical pods have for themselves. */
export type ShutdownPeriods = Readonly<Record<(typeof periodNames)[number], string>>;

/**
 * Changes the disk of a node without power: when it boots, systemd runs containerd and a kubelet that asks logind for these periods. All of
 * them are this machine's packages, but for the kubelet.
 */
export function makeOrderly(lab: NodeLab, node: string, periods: ShutdownPeriods): void {
  const disk = locateDisk(lab.folder, node);
  changeConfiguration(disk, (before) => ({ ...before, ...periods }));
  writeUnits(disk, join(lab.folder, node), {
    packaged: [
      ...['containerd.service', 'dbus.service', 'dbus.socket'],
      ...['systemd-logind.service', 'systemd-poweroff.service'],
    ],
    own: {
      'containerd.service.d/node.conf': `[Service]
ExecStart=
ExecStart=/usr/bin/containerd --config /etc/containerd/node.toml
`,
      'kubelet.service': renderKubelet(lab, node),
    },
    enabled: ['containerd.service', 'kubelet.service', 'systemd-logind.service'],
  });
}

/** Undoes makeOrderly, on the disk of a node without power. Not an error when that was not done. */
export function unmakeOrderly(lab: NodeLab, node: string): void {
  const disk = locateDisk(lab.folder, node);
  if (!hasUnits(disk)) return;
  removeUnits(disk);
  const names: readonly string[] = periodNames;
  changeConfiguration(disk, (before) =>
    Object.fromEntries(Object.entries(before).filter(([name]) => !names.includes(name))),
  );
}

/** Waits until the kubelet of a node that was made orderly holds back shutdowns. */
export async function waitForInhibitor(lab: NodeLab, node: string): Promise<void> {
  await waitUntil(`the kubelet of ${node} holds back shutdowns`, async () => {
    const { stdout, stderr } = await lab.machine(node).run(['systemd-inhibit', '--list', '--no-legend']);
    return /^kubelet .* shutdown .* delay *$/m.test(stdout) ? null : `${stdout}${stderr}`;
  });
}

/** Begins to shut down a node that was made orderly. `waitForOff` waits for the end of that. */
export async function shutDown(lab: NodeLab, node: string): Promise<void> {
  await runShell(lab.machine(node), 'systemctl poweroff');
}

/** Waits until a node that shuts down has no power any more; it can boot then. */
export async function waitForOff(lab: NodeLab, node: string): Promise<void> {
  await waitUntil(`${node} is off`, async () => ((await lab.isOn(node)) ? 'it is on' : null));
  lab.closeSeats(node);
}

function changeConfiguration(disk: string, change: (before: Record<string, unknown>) => object): void {
  const file = join(disk, configuration);
  writeFileSync(file, stringify(change(parse(readFileSync(file, 'utf8')) as Record<string, unknown>)));
}

/** As `services` starts it, after logind: a kubelet asks it once. */
function renderKubelet({ options }: NodeLab, node: string): string {
  const { kubelet } = locateNodeComponents(options.kubernetes);
  const address = nodes.find(({ name }) => name === node)?.addresses[options.family] ?? '';
  const command = [
    ...[kubelet, `--config=${configuration}`, '--kubeconfig=/etc/kubernetes/kubelet.conf'],
    ...[`--hostname-override=${node}`, `--node-ip=${address}`],
  ];
  return `[Unit]
Description=kubelet: The Kubernetes Node Agent
After=containerd.service systemd-logind.service

[Service]
ExecStart=${command.join(' ')}
Restart=always
RestartSec=1
`;
}
