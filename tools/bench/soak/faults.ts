import type { Lab } from '../../lab/control-plane/lab.ts';
import { faults as deaths, type FaultName, chooseMaster } from '../failover/faults.ts';
import fc from 'fast-check';
import { masters } from '../../../test/support/network/layout.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { quickFaults } from '../../../test/support/lab/faults.ts';
import { runShell } from '../../lab/machines/machine.ts';

/** One fault and the master that it is done to, where the fault leaves that open. */
export interface SoakStep {
  readonly fault: string;
  readonly master: string;
}

/** Does something and undoes it, within ten seconds or a little more. The agents' processes are left alone. */
type Run = (lab: Lab, master: string) => Promise<void>;

/** How long something stays broken. */
const brokenMs = 5000;

/** What takes a master, or a part of it, out of service. */
const deathNames = ['killed', 'blackholed', 'frozen', 'stopped', 'holder', 'path'] as const;

const byName: ReadonlyMap<string, Run> = new Map<string, Run>([
  ...deathNames.map((name): [string, Run] => [`\`${name}\`: ${deaths[name].meaning}`, passDeath(name)]),
  ...listQuickFaults(),
  [
    "other software flushes a chain of vipnat's",
    (lab, master) => onMaster(lab, master, 'iptables-nft -t nat -F VIPNAT'),
  ],
  ["other software deletes a hook of vipnat's", (lab, master) => onMaster(lab, master, deleteHook)],
  ["other software adds a rule before vipnat's hook, and removes it", passForeignRule],
  ['the API hangs: every etcd is frozen', passEtcd],
  ['keepalived on the VIP holder restarts, and the VIP moves', restartKeepalived],
]);

const deleteHook = `iptables-nft-save -t nat | grep -e '^-A PREROUTING.* -j VIPNAT' |
  sed 's/^-A/iptables-nft -t nat -D/' | sh`;

const foreignRule = 'PREROUTING -p tcp -m tcp --dport 6443 -m comment --comment foreign -j ACCEPT';

/** All of them, in words. */
export const soakFaults: readonly string[] = [...byName.keys()];

/** So many steps; the same ones for a seed. */
export function drawSteps(seed: number, count: number): SoakStep[] {
  const step = fc.record({
    fault: fc.constantFrom(...soakFaults),
    master: fc.constantFrom(...masters.map(({ name }) => name)),
  });
  return fc.sample(step, { seed, numRuns: count });
}

/** Does one step and undoes it. */
export async function runStep(lab: Lab, { fault, master }: SoakStep): Promise<void> {
  await byName.get(fault)?.(lab, master);
}

function passDeath(name: FaultName): Run {
  return async (lab) => {
    const master = await chooseMaster(lab, deaths[name]);
    await deaths[name].break(lab, master);
    await sleep(brokenMs);
    await deaths[name].mend(lab, master);
  };
}

/** Those of the cluster's tests that leave the agent alive: whoever measures a process must not end it. */
function listQuickFaults(): [string, Run][] {
  return quickFaults
    .filter(({ name }) => !name.startsWith('agent '))
    .map((fault) => [
      fault.name.replace(' on the VIP holder', ''),
      (lab, master) => fault.run(lab, { holder: master, other: master }),
    ]);
}

async function onMaster(lab: Lab, master: string, script: string): Promise<void> {
  await runShell(lab.machine(master), script);
}

async function passForeignRule(lab: Lab, master: string): Promise<void> {
  await onMaster(lab, master, `iptables-nft -t nat -I ${foreignRule}`);
  await sleep(brokenMs);
  // A firewall's restore may have taken it.
  await onMaster(lab, master, `iptables-nft -t nat -D ${foreignRule} || true`);
}

async function passEtcd(lab: Lab): Promise<void> {
  const etcds = masters.map(({ name }) => lab.service(name, 'etcd'));
  await Promise.all(etcds.map((etcd) => etcd.signal('STOP')));
  await sleep(brokenMs);
  await Promise.all(etcds.map((etcd) => etcd.signal('CONT')));
}

async function restartKeepalived(lab: Lab): Promise<void> {
  const [holder = ''] = await lab.listHolders();
  if (holder === '') return;
  await lab.service(holder, 'keepalived').stop();
  await sleep(brokenMs);
  await lab.start(holder, 'keepalived');
}
