import { type tidyDamages, findOwnRules, renderDamage, pick } from '../../foreign/damage.ts';
import { type Machine, runShell } from '../../../../tools/lab/machines/machine.ts';
import { findTableRules, renderTableDamage } from '../../foreign/damage-table.ts';
import { type ControlPlane, usesLegacy } from './control-plane.ts';
import type { Step } from '../engine/walk.ts';
import { masters as hosts } from '../../network/layout.ts';
import { renderBlackhole } from '../world/blackhole.ts';
import type { LabFaultName } from '../world/faults.ts';
import { Service } from '../../../../tools/lab/machines/service.ts';
import { agentCommand } from '../../../../tools/lab/components/agent.ts';
import type { Component } from '../../../../tools/lab/components/component.ts';
import { type Remedy, listRemedies } from './masters.ts';

type Tampering = (typeof tidyDamages)[number];

/** A rule of vipnat's on a master, and the way to damage it: a command and its input. */
interface FoundRule {
  readonly command: readonly string[];
  readonly render: (damage: Tampering) => string;
}

const ownTable = 'ip vipnat';

/** All rules of vipnat's that lead connections, in every dialect: its chains' and its hooks. */
async function listOwnRules(machine: Machine): Promise<FoundRule[]> {
  const [nft, legacy, table] = await Promise.all([
    listSaved(machine, 'iptables-nft'),
    listSaved(machine, 'iptables-legacy'),
    machine.run(['nft', '--handle', 'list', 'table', ...ownTable.split(' ')]),
  ]);
  const inTable = findTableRules(ownTable, table.stdout).map((rule) => ({
    command: ['nft', '-f', '-'],
    render: (damage: Tampering) => renderTableDamage(rule, damage),
  }));
  return [...nft, ...legacy, ...inTable];
}

async function listSaved(machine: Machine, tool: string): Promise<FoundRule[]> {
  const { stdout } = await machine.run([`${tool}-save`]);
  return findOwnRules(stdout).map((rule) => ({
    command: [`${tool}-restore`, '--noflush', '-w', '40'],
    render: (damage) => renderDamage(rule, damage),
  }));
}

/** On one master, which has power or is brought back. */
type Act = (plane: ControlPlane, master: string, step: Step) => unknown;

const conditionToAct: Readonly<Record<string, Act>> = {
  dead: async (plane, master) => {
    await kill(plane, master, 'kube-apiserver');
    plane.note(master, { apiserver: 'dead' });
  },
  leaving: async (plane, master) => {
    if (plane.master(master).apiserver !== 'running') return;
    await plane.lab.service(master, 'kube-apiserver').signal('TERM');
    plane.note(master, { apiserver: 'leaving' });
  },
  frozen: async (plane, master) => {
    if (plane.master(master).apiserver !== 'running') return;
    await plane.lab.service(master, 'kube-apiserver').signal('STOP');
    plane.note(master, { apiserver: 'frozen' });
  },
  blackholed: async (plane, master) => {
    if (plane.master(master).isBlackholed) return;
    const others = hosts.filter(({ name }) => name !== master).map(({ addresses }) => addresses.ipv4);
    await runShell(plane.lab.machine(master), renderBlackhole(others));
    plane.note(master, { isBlackholed: true });
  },
  well: (plane, master) => mendNext(plane, master, ['apiserver', 'blackhole']),
};

const faultToAct: Readonly<Record<LabFaultName, Act>> = {
  apiserver: (plane, master, step) => conditionToAct[String(step['condition'])]?.(plane, master, step),
  'way slowed': async (plane, master) => {
    const machine = plane.lab.machine(master);
    await runShell(machine, 'tc qdisc replace dev eth0 root tbf rate 4mbit burst 16kb latency 2s');
    plane.chores.add(() => machine.run(['tc', 'qdisc', 'del', 'dev', 'eth0', 'root']));
  },
  'etcd killed': async (plane, master) => {
    await kill(plane, master, 'etcd');
    plane.note(master, { etcd: 'dead' });
  },
  'etcd frozen': async (plane, master) => {
    if (plane.master(master).etcd !== 'running') return;
    await plane.lab.service(master, 'etcd').signal('STOP');
    plane.note(master, { etcd: 'frozen' });
  },
  'etcd back': (plane, master) => mendNext(plane, master, ['etcd']),
  'power cut': (plane, master) => plane.cutPower(master),
  'link cut': async (plane, master) => {
    await plane.lab.cut(master);
    plane.note(master, { isLinked: false });
  },
  'host back': (plane, master) => mendNext(plane, master, ['power', 'link']),
  'keepalived killed': async (plane, master) => {
    await kill(plane, master, 'keepalived');
    plane.note(master, { hasKeepalived: false });
  },
  'keepalived stopped': async (plane, master) => {
    await plane.lab.service(master, 'keepalived').stop();
    plane.note(master, { hasKeepalived: false });
  },
  'keepalived back': (plane, master) => mendNext(plane, master, ['keepalived']),
  'agent killed': (plane, master) => kill(plane, master, 'vipnat'),
  'agent restarted': async (plane, master, { hasCredentials }) => {
    await plane.lab.service(master, 'vipnat').stop();
    plane.credentialed.delete(master);
    if (hasCredentials === true) plane.credentialed.add(master);
    await plane.startAgent(master);
  },
  'agent started': async (plane, master) => {
    const twin = new Service(plane.lab.machine(master), 'vipnat-twin', plane.lab.folder);
    await twin.start(agentCommand('ipv4', plane.lab.certificates).command);
    plane.chores.add(() => twin.stop('KILL'));
  },
  'kube-proxy killed': (plane, master) => kill(plane, master, 'kube-proxy'),
  'kube-proxy restarted': (plane, master) => plane.restartProxy(master),
  'kube-proxy mode': (plane, master, { mode }) =>
    plane.restartProxy(master, { mode: mode === 'nftables' ? 'nftables' : 'iptables' }),
  'kube-proxy backend': (plane, master, { backend }) =>
    plane.restartProxy(master, { iptables: backend === 'legacy' ? 'legacy' : 'nft' }),
  'kube-proxy resync': async (plane, master) => {
    // That it is gone is how kube-proxy learns that somebody flushed its tables.
    const { iptables } = plane.proxy(master);
    await plane.lab.machine(master).run([`iptables-${iptables}`, '-t', 'mangle', '-X', 'KUBE-PROXY-CANARY']);
  },
  'firewall restored': (plane, master) => plane.firewall(master).restore(),
  'nftables reloaded': async (plane, master) => {
    await plane.firewall(master).reload();
    plane.note(master, { isBlackholed: false });
  },
  'flush table': (plane, master, { table }) => plane.firewall(master).flush(String(table)),
  'strange hook': async (plane, master, { chain, number }) => {
    // It is in iptables-nft: in front of rules there, or behind vipnat's own table.
    if (usesLegacy(plane.proxy(master))) return;
    await plane.firewall(master).obstruct(String(chain), Number(number));
  },
  'strange rule': (plane, master, { chain, number }) =>
    plane.firewall(master).insert('filter', String(chain), Number(number)),
  'strange rule removed': async (plane, master, { place }) => {
    const [table = '', chain = ''] = String(place).split(' ');
    await plane.firewall(master).remove(table, chain);
  },
  'damage a rule': async (plane, master, { index, damage }) => {
    const machine = plane.lab.machine(master);
    const rule = pick(await listOwnRules(machine), Number(index));
    // One that is gone by now is left alone: somebody was faster.
    if (rule !== undefined) await machine.run(rule.command, { input: rule.render(damage as Tampering) });
  },
  'lock held': async (plane, master, { durationMs }) => {
    const holding = new Service(plane.lab.machine(master), 'lock-holder', plane.lab.folder);
    const seconds = String(Number(durationMs) / 1000);
    await holding.start(['flock', '--close', '/run/xtables.lock', 'sleep', seconds]);
    plane.chores.add(() => holding.stop('KILL'));
  },
};

/** Makes a fault happen. On a master without power nothing happens but what brings it back. */
export async function performStep(plane: ControlPlane, step: Step): Promise<void> {
  const act = Object.entries(faultToAct).find(([name]) => name === step.fault)?.[1];
  if (act === undefined) throw new Error(`no such fault on the lab: ${step.fault}`);
  const master = await plane.resolve(String(step['host'] ?? step['name']));
  const isHelp = step.fault.endsWith(' back') || step['condition'] === 'well';
  if (plane.master(master).hasPower || isHelp) await act(plane, master, step);
}

async function kill(plane: ControlPlane, master: string, component: Component): Promise<void> {
  await plane.lab.service(master, component).stop('KILL');
}

/** The first thing of these kinds that a master needs. */
async function mendNext(
  plane: ControlPlane,
  master: string,
  kinds: readonly Remedy['kind'][],
): Promise<void> {
  const next = listRemedies(plane.master(master)).find(({ kind }) => kinds.includes(kind));
  if (next !== undefined) await plane.mend(next);
}
