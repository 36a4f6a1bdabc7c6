/**
 * The faults of the world, by the names that walks have for them. Two drivers make them happen: the stand-in, in network namespaces
 * with programs of our own in the place of components, and the lab, on real components.
 */
import { fc } from '../../random/fc.ts';
import { type Argument } from '../engine/walk.ts';
import { type Fault } from '../engine/world.ts';

/** Why only one of them can do it. */
const realOnly = 'takes a real component';
const standInOnly = 'takes a host whose tools, files and clock are its own';
const scripted = 'takes a component that does what it is told';

/** What happens, and who cannot do it, and why. */
interface Meaning {
  readonly says: string;
  readonly notOnLab?: string;
  readonly notOnStandIn?: string;
}

export const meanings = {
  apiserver: { says: 'an apiserver becomes something else: it dies, freezes, is cut off, comes back' },
  'way slowed': { says: "a host's cable is slow", notOnStandIn: 'its apiservers can be slow themselves' },
  'etcd killed': { says: 'etcd dies', notOnStandIn: realOnly },
  'etcd frozen': { says: 'etcd hangs', notOnStandIn: realOnly },
  'etcd back': { says: 'etcd runs again', notOnStandIn: realOnly },
  'power cut': { says: 'a host is off', notOnStandIn: realOnly },
  'link cut': { says: 'a cable is out', notOnStandIn: realOnly },
  'host back': { says: 'a host is on, or its cable in, again', notOnStandIn: realOnly },
  'keepalived killed': { says: 'keepalived dies', notOnStandIn: 'see VIP' },
  'keepalived stopped': { says: 'keepalived ends', notOnStandIn: 'see VIP' },
  'keepalived back': { says: 'keepalived runs again', notOnStandIn: 'see VIP' },
  VIP: { says: 'the VIPs move, or are held by nobody', notOnLab: "keepalived's affair" },
  'API answers': { says: 'the Kubernetes API fails, hangs, or does neither', notOnLab: scripted },
  'API lists': { says: 'the Kubernetes API lists other apiservers', notOnLab: scripted },
  'agent killed': { says: 'an agent is killed' },
  'agent started': { says: 'an agent is started; beside one that runs, it has to end' },
  'agent stopped': { says: 'an agent is told to end', notOnLab: 'see agent restarted' },
  'agent restarted': { says: 'an agent begins anew, with credentials or without', notOnStandIn: realOnly },
  'agent killed by a tool': { says: 'an agent is killed in the middle of a write', notOnLab: standInOnly },
  'agent paused': { says: 'an agent does not run for a while', notOnLab: standInOnly },
  tool: { says: 'a tool hangs, fails, lies, or is gone', notOnLab: standInOnly },
  'state folder': { says: 'a state folder is full, read-only, torn', notOnLab: standInOnly },
  clock: { says: 'the time of day jumps', notOnLab: standInOnly },
  'no descriptors': { says: 'an agent can open no file', notOnLab: standInOnly },
  'lock held': { says: 'somebody holds the xtables lock' },
  'kube-proxy syncs': { says: 'kube-proxy writes what it has heard', notOnLab: scripted },
  'kube-proxy mode': { says: 'kube-proxy is started in another mode' },
  'kube-proxy backend': { says: 'kube-proxy is started with the other iptables' },
  'kube-proxy killed': { says: 'kube-proxy dies', notOnStandIn: realOnly },
  'kube-proxy restarted': { says: 'kube-proxy begins anew', notOnStandIn: realOnly },
  'kube-proxy resync': { says: 'kube-proxy writes everything anew', notOnStandIn: 'see kube-proxy syncs' },
  'flush table': { says: 'somebody empties a table of iptables' },
  'firewall restored': { says: 'a firewall is restored from a file that knows nothing of us' },
  'nftables reloaded': { says: 'all of nftables is flushed', notOnStandIn: 'it has no firewall of nftables' },
  'damage a rule': { says: 'somebody changes a rule of ours' },
  'other version': { says: 'another version of vipnat left rules', notOnLab: scripted },
  'strange hook': { says: 'somebody hooks in before us, and may take our packets' },
  'strange rule': { says: 'somebody adds a rule before all others', notOnStandIn: 'see strange hook' },
  'strange rule removed': { says: 'somebody takes such a rule away', notOnStandIn: 'see strange hook' },
} as const satisfies Record<string, Meaning>;

export type FaultName = keyof typeof meanings;

/** A world's faults by name. A driver that lacks one of its own is no driver. */
type Doable<Excuse extends keyof Meaning> = {
  [Name in FaultName]: (typeof meanings)[Name] extends Readonly<Record<Excuse, string>> ? never : Name;
}[FaultName];

export type LabFaultName = Doable<'notOnLab'>;

export type StandInFaultName = Doable<'notOnStandIn'>;

/** What steps of a fault can say beside its name. */
export type Arguments = Readonly<Record<string, fc.Arbitrary<Argument>>>;

/** One entry of what a world draws its walks from; a fault may have several. */
export function fault(name: FaultName, weight: number, said: Arguments): Fault {
  return { name, weight, arguments: fc.record(said) };
}

/** Where others hook in before us. */
export const hookedChains = fc.constantFrom('PREROUTING', 'OUTPUT');

/** The two iptables that kube-proxy can be started with. */
export const proxyBackends = fc.constantFrom('nft', 'legacy');
