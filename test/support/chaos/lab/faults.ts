import { fc } from '../../random/fc.ts';
import { tidyDamages } from '../../foreign/damage.ts';
import { type Fault } from '../engine/world.ts';
import { type Arguments, fault, hookedChains, type LabFaultName, proxyBackends } from '../world/faults.ts';
import { masterNames } from './control-plane.ts';

/** Every fault is on one master, most often on the one that matters most. */
const host = fc.oneof(
  { arbitrary: fc.constant('holder'), weight: 2 },
  { arbitrary: fc.constantFrom(...masterNames), weight: 3 },
);

const number = fc.integer({ min: 1, max: 999 });

function onHost(name: LabFaultName, weight: number, others: Arguments = {}): Fault {
  return fault(name, weight, { host, ...others });
}

/** What an apiserver can become here: `leaving` is told to end; `well` is one step towards it. */
function become(condition: string, weight: number): Fault {
  return fault('apiserver', weight, { name: host, condition: fc.constant(condition) });
}

/** What walks on the lab are drawn from. */
export const labFaults: readonly Fault[] = [
  become('dead', 3),
  become('leaving', 3),
  become('frozen', 2),
  become('blackholed', 2),
  become('well', 6),
  onHost('way slowed', 1),
  onHost('etcd killed', 2),
  onHost('etcd frozen', 1),
  onHost('etcd back', 3),
  onHost('power cut', 1),
  onHost('link cut', 2),
  onHost('host back', 5),
  onHost('keepalived killed', 2),
  onHost('keepalived stopped', 2),
  onHost('keepalived back', 4),
  onHost('agent killed', 3),
  onHost('agent restarted', 3, { hasCredentials: fc.boolean() }),
  onHost('agent started', 1),
  onHost('kube-proxy killed', 2),
  onHost('kube-proxy restarted', 2),
  onHost('kube-proxy mode', 2, { mode: fc.constantFrom('iptables', 'nftables') }),
  onHost('kube-proxy backend', 1, { backend: proxyBackends }),
  onHost('kube-proxy resync', 1),
  onHost('firewall restored', 2),
  onHost('nftables reloaded', 1),
  onHost('flush table', 2, { table: fc.constantFrom('nat', 'filter') }),
  onHost('strange hook', 2, { chain: hookedChains, number }),
  onHost('strange rule', 2, { chain: fc.constantFrom('INPUT', 'FORWARD'), number }),
  onHost('strange rule removed', 2, {
    place: fc.constantFrom('nat PREROUTING', 'nat OUTPUT', 'filter INPUT', 'filter FORWARD'),
  }),
  onHost('damage a rule', 5, { index: fc.nat({ max: 99 }), damage: fc.constantFrom(...tidyDamages) }),
  onHost('lock held', 1, { durationMs: fc.integer({ min: 1, max: 8 }).map((seconds) => seconds * 1000) }),
];
