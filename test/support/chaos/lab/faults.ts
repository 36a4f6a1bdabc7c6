import fc from 'fast-check';
import { type Component } from '../../../../lab/components/component.ts';
import { agentCommand } from '../../../../lab/components/agent.ts';
import { runShell } from '../../../../lab/machines/machine.ts';
import { Service } from '../../../../lab/machines/service.ts';
import { apiserverPort, masters as hosts } from '../../network/layout.ts';
import { type Argument, type Step } from '../engine/walk.ts';
import { type Fault } from '../engine/world.ts';
import { type ControlPlane, masterNames, usesLegacy } from './control-plane.ts';
import { listRemedies, type Remedy } from './masters.ts';
import { listOwnRules, tamper, type Tampering, tamperings } from './own-rules.ts';

/** A fault of the lab, with how it is done. */
export interface LabFault extends Fault {
  /** On one master, which has power. */
  perform(plane: ControlPlane, master: string, step: Step): Promise<void>;
  /** Whether it can be done to a master without power; it cannot when left out. */
  readonly needsNoPower?: boolean;
}

type Arguments = Readonly<Record<string, fc.Arbitrary<Argument>>>;

/** Every fault is on one master, most often on the one that matters most. */
const place = fc.oneof(
  { arbitrary: fc.constant('holder'), weight: 2 },
  { arbitrary: fc.constantFrom(...masterNames), weight: 3 },
);

const number = fc.integer({ min: 1, max: 999 });

function fault(name: string, weight: number, perform: LabFault['perform'], others: Arguments = {}): LabFault {
  return { name, weight, arguments: fc.record({ on: place, ...others }), perform };
}

function remedyOf(name: string, weight: number, kinds: readonly Remedy['kind'][]): LabFault {
  const perform: LabFault['perform'] = async (plane, master) => {
    const next = listRemedies(plane.master(master)).find(({ kind }) => kinds.includes(kind));
    if (next !== undefined) await plane.mend(next);
  };
  return { ...fault(name, weight, perform), needsNoPower: true };
}

async function kill(plane: ControlPlane, master: string, component: Component): Promise<void> {
  await plane.lab.service(master, component).stop('KILL');
}

const apiserverFaults: readonly LabFault[] = [
  fault('apiserver killed', 3, async (plane, master) => {
    await kill(plane, master, 'kube-apiserver');
    plane.note(master, { apiserver: 'dead' });
  }),
  fault('apiserver stopped', 3, async (plane, master) => {
    if (plane.master(master).apiserver !== 'running') return;
    await plane.lab.service(master, 'kube-apiserver').signal('TERM');
    plane.note(master, { apiserver: 'leaving' });
  }),
  fault('apiserver frozen', 2, async (plane, master) => {
    if (plane.master(master).apiserver !== 'running') return;
    await plane.lab.service(master, 'kube-apiserver').signal('STOP');
    plane.note(master, { apiserver: 'frozen' });
  }),
  fault('apiserver blackholed', 2, async (plane, master) => {
    if (plane.master(master).isBlackholed) return;
    const others = hosts.filter(({ name }) => name !== master).map(({ addresses }) => addresses.ipv4);
    const drop = `ip saddr { ${others.join(', ')} } tcp dport ${apiserverPort} drop`;
    await runShell(
      plane.lab.machine(master),
      `nft -f - <<'END'
table inet blackhole {
  chain input { type filter hook input priority -10; ${drop}; }
}
END`,
    );
    plane.note(master, { isBlackholed: true });
  }),
  remedyOf('apiserver back', 6, ['apiserver', 'blackhole']),
  fault('way slowed', 1, async (plane, master) => {
    const machine = plane.lab.machine(master);
    await runShell(machine, 'tc qdisc replace dev eth0 root tbf rate 4mbit burst 16kb latency 2s');
    plane.chores.add(() => machine.run(['tc', 'qdisc', 'del', 'dev', 'eth0', 'root']));
  }),
];

const hostFaults: readonly LabFault[] = [
  fault('etcd killed', 2, async (plane, master) => {
    await kill(plane, master, 'etcd');
    plane.note(master, { etcd: 'dead' });
  }),
  fault('etcd frozen', 1, async (plane, master) => {
    if (plane.master(master).etcd !== 'running') return;
    await plane.lab.service(master, 'etcd').signal('STOP');
    plane.note(master, { etcd: 'frozen' });
  }),
  remedyOf('etcd back', 3, ['etcd']),
  fault('power cut', 1, (plane, master) => plane.cutPower(master)),
  fault('link cut', 2, async (plane, master) => {
    await plane.lab.cut(master);
    plane.note(master, { isLinked: false });
  }),
  remedyOf('host back', 5, ['power', 'link']),
  fault('keepalived killed', 2, async (plane, master) => {
    await kill(plane, master, 'keepalived');
    plane.note(master, { hasKeepalived: false });
  }),
  fault('keepalived stopped', 2, async (plane, master) => {
    await plane.lab.service(master, 'keepalived').stop();
    plane.note(master, { hasKeepalived: false });
  }),
  remedyOf('keepalived back', 4, ['keepalived']),
];

const agentFaults: readonly LabFault[] = [
  fault('agent killed', 3, (plane, master) => kill(plane, master, 'vipnat')),
  fault(
    'agent restarted',
    3,
    async (plane, master, { hasCredentials }) => {
      await plane.lab.service(master, 'vipnat').stop();
      plane.credentialed.delete(master);
      if (hasCredentials === true) plane.credentialed.add(master);
      await plane.startAgent(master);
    },
    { hasCredentials: fc.boolean() },
  ),
  fault('agent started twice', 1, async (plane, master) => {
    const twin = new Service(plane.lab.machine(master), 'vipnat-twin', plane.lab.folder);
    await twin.start(agentCommand('ipv4', plane.lab.certificates).command);
    plane.chores.add(() => twin.stop('KILL'));
  }),
];

const proxyFaults: readonly LabFault[] = [
  fault('kube-proxy killed', 2, (plane, master) => kill(plane, master, 'kube-proxy')),
  fault('kube-proxy restarted', 2, (plane, master) => plane.restartProxy(master)),
  fault(
    'kube-proxy mode',
    2,
    (plane, master, { mode }) =>
      plane.restartProxy(master, { mode: mode === 'nftables' ? 'nftables' : 'iptables' }),
    { mode: fc.constantFrom('iptables', 'nftables') },
  ),
  fault(
    'kube-proxy backend',
    1,
    (plane, master, { iptables }) =>
      plane.restartProxy(master, { iptables: iptables === 'legacy' ? 'legacy' : 'nft' }),
    { iptables: fc.constantFrom('nft', 'legacy') },
  ),
  fault('kube-proxy resync', 1, async (plane, master) => {
    // That it is gone is how kube-proxy learns that somebody flushed its tables.
    const { iptables } = plane.proxy(master);
    await plane.lab.machine(master).run([`iptables-${iptables}`, '-t', 'mangle', '-X', 'KUBE-PROXY-CANARY']);
  }),
];

const tables = ['nat', 'filter'] as const;

const firewallFaults: readonly LabFault[] = [
  fault('firewall restored', 2, async (plane, master) => plane.firewalls.get(master)?.restore()),
  fault('nftables reloaded', 1, async (plane, master) => {
    await plane.firewalls.get(master)?.reload();
    plane.note(master, { isBlackholed: false });
  }),
  fault(
    'table flushed',
    2,
    async (plane, master, { table }) => plane.firewalls.get(master)?.flush(String(table)),
    { table: fc.constantFrom(...tables) },
  ),
  fault(
    'strange hook',
    2,
    async (plane, master, { chain, number: which }) => {
      // It is in iptables-nft: in front of rules there, or behind vipnat's own table.
      if (usesLegacy(plane.proxy(master))) return;
      await plane.firewalls.get(master)?.obstruct(String(chain), Number(which));
    },
    { chain: fc.constantFrom('PREROUTING', 'OUTPUT'), number },
  ),
  fault(
    'strange rule',
    2,
    async (plane, master, { chain, number: which }) =>
      plane.firewalls.get(master)?.insert('filter', String(chain), Number(which)),
    { chain: fc.constantFrom('INPUT', 'FORWARD'), number },
  ),
  fault(
    'strange rule removed',
    2,
    async (plane, master, { place: where }) => {
      const [table = '', chain = ''] = String(where).split(' ');
      await plane.firewalls.get(master)?.remove(table, chain);
    },
    { place: fc.constantFrom('nat PREROUTING', 'nat OUTPUT', 'filter INPUT', 'filter FORWARD') },
  ),
  fault(
    'our rule',
    5,
    async (plane, master, { pick, how }) => {
      const machine = plane.lab.machine(master);
      const rules = await listOwnRules(machine);
      const rule = rules[Number(pick) % Math.max(1, rules.length)];
      if (rule !== undefined) await tamper(machine, rule, how as Tampering);
    },
    { pick: fc.nat({ max: 99 }), how: fc.constantFrom(...tamperings) },
  ),
  fault(
    'xtables lock held',
    1,
    async (plane, master, { seconds }) => {
      const holding = new Service(plane.lab.machine(master), 'lock-holder', plane.lab.folder);
      await holding.start(['flock', '--close', '/run/xtables.lock', 'sleep', String(seconds)]);
      plane.chores.add(() => holding.stop('KILL'));
    },
    { seconds: fc.integer({ min: 1, max: 8 }) },
  ),
];

/** All faults of the lab. */
export const labFaults: readonly LabFault[] = [
  ...apiserverFaults,
  ...hostFaults,
  ...agentFaults,
  ...proxyFaults,
  ...firewallFaults,
];
