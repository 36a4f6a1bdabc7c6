import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { runShell } from '../../../tools/lab/machines/machine.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { masters } from '../network/layout.ts';
import { isLong } from '../jest/extent.ts';
import type { Component } from '../../../tools/lab/components/component.ts';
import { waitForApiservers, waitForBalance } from '../../../tools/lab/control-plane/ready.ts';

/** A firewall's saved rules, from before kube-proxy and vipnat came: whoever restores them removes all others. */
const savedFirewall = `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
COMMIT
`;

/** The masters as a fault sees them. */
interface Roles {
  readonly holder: string;
  readonly other: string;
}

export interface Fault {
  readonly name: string;
  /** How long clients are watched from its beginning on. */
  readonly durationMs: number;
  /** How many new connections may fail; any number when left out, as long as it ends. */
  readonly maxFailed?: number;
  /** How long they may fail, far more than on a quiet machine; any time when left out. */
  readonly maxWindowMs?: number;
  /** Whose machine or apiserver answers no more: nobody asks it about the machine. */
  readonly stricken?: keyof Roles;
  /** Whose apiserver the long-lived watch is on. */
  readonly watched?: keyof Roles;
  /** Whether a connection counts only with an apiserver's answer; otherwise its host's is enough. */
  readonly needsAnswer?: boolean;
  /** Mends what the one before broke: begins while it is broken. */
  readonly isRemedy?: boolean;
  run(lab: Lab, roles: Roles): Promise<void>;
}

/** Mends what the one before broke, and costs nobody a connection. */
const mend = (name: string, durationMs: number, run: Fault['run']): Fault => ({
  ...{ name, durationMs, run, isRemedy: true, maxFailed: 0 },
});

/** An apiserver that is gone is an endpoint for up to 26 s (a lease of 15 s, looked at every 10), and kube-proxy hears of it then: what follows from that is watched too. */
const leaseMs = 32_000;

/** The kubelet gives a static pod no longer after its SIGTERM. */
const graceMs = 10_000;

/** kube-proxy writes all of its rules anew. */
export const kubeProxyRestarted: Fault = {
  name: 'kube-proxy on the VIP holder restarted',
  maxFailed: 0,
  durationMs: 8000,
  run: (lab, { holder }) => restart(lab, holder, 'kube-proxy'),
};

/** Everybody's NAT is gone. */
export const natFlushed: Fault = {
  name: 'iptables -t nat -F on the VIP holder',
  maxFailed: 0,
  durationMs: 8000,
  run: async (lab, { holder }) => {
    await runShell(lab.machine(holder), `iptables-${lab.options.iptables} -t nat -F`);
    await sleep(5000);
    // It looks after chains, not rules: by itself it would notice within an hour.
    await restart(lab, holder, 'kube-proxy');
  },
};

/** Everybody's rules are gone, and a firewall's are there. */
export const firewallRestored: Fault = {
  name: "a firewall without vipnat's rules restored on the VIP holder",
  // Its FORWARD policy drops the answers to what is just under way to another master.
  maxFailed: 5,
  durationMs: 8000,
  run: async (lab, { holder }) => {
    await lab.machine(holder).run([`iptables-${lab.options.iptables}-restore`], { input: savedFirewall });
    await sleep(5000);
    await restart(lab, holder, 'kube-proxy');
  },
};

/** Nobody looks after our own rules for some seconds. */
export const agentKilled: Fault = {
  name: 'agent on the VIP holder killed -9, started after 3 s',
  maxFailed: 0,
  durationMs: 8000,
  run: async (lab, { holder }) => {
    await lab.service(holder, 'vipnat').stop('KILL');
    await sleep(3000);
    await lab.start(holder, 'vipnat');
  },
};

/** What is over in a few seconds, and seen by hardly any client. */
export const quickFaults: readonly Fault[] = [kubeProxyRestarted, natFlushed, firewallRestored, agentKilled];

/** An apiserver goes without a word, and comes back. The bounds are for machines that do other work too. */
export const deathAndReturn: readonly Fault[] = [
  {
    name: 'an apiserver killed -9',
    maxWindowMs: 2000,
    durationMs: leaseMs,
    watched: 'other',
    run: (lab, { other }) => lab.service(other, 'kube-apiserver').stop('KILL'),
  },
  mend('that apiserver started', 15_000, startApiserver),
];

/** A master goes without a word, and comes back. */
export const masterCut: readonly Fault[] = [
  {
    name: 'another master cut from the network',
    stricken: 'other',
    maxWindowMs: 4000,
    durationMs: 15_000,
    watched: 'other',
    run: (lab, { other }) => lab.cut(other),
  },
  mend('that master back', 15_000, (lab, { other }) => lab.join(other)),
];

/** An apiserver answers no more, and does again. */
export const freezeAndThaw: readonly Fault[] = [
  {
    name: 'an apiserver frozen',
    stricken: 'other',
    maxWindowMs: 13_000,
    durationMs: 18_000,
    needsAnswer: true,
    run: (lab, { other }) => lab.service(other, 'kube-apiserver').signal('STOP'),
  },
  mend('that apiserver thawed', 10_000, (lab, { other }) =>
    lab.service(other, 'kube-apiserver').signal('CONT'),
  ),
];

/** An apiserver says that it goes, and comes back. */
export const stopAndStart: readonly Fault[] = [
  {
    name: 'an apiserver stopped',
    maxWindowMs: 2000,
    durationMs: 20_000,
    watched: 'other',
    run: (lab, { other }) => stopApiserver(lab, other),
  },
  mend('that apiserver started', 15_000, startApiserver),
];

/** The VIP's holder goes without a word, and comes back. */
export const holderCut: readonly Fault[] = [
  {
    name: 'the VIP holder cut from the network',
    stricken: 'holder',
    maxWindowMs: 12_000,
    durationMs: 20_000,
    watched: 'holder',
    run: (lab, { holder }) => lab.cut(holder),
  },
  // The VIP is elsewhere by now.
  mend('that master back', 15_000, async (lab) => {
    for (const { name } of masters) await lab.join(name);
  }),
];

/** A minute is as long as an agent rests at most between two looks; by default a quarter of it has to do. */
const proxyStop = isLong ? { words: 'a minute', lengthMs: 60_000 } : { words: '15 s', lengthMs: 15_000 };

/** For a while nobody looks after kube-proxy's rules. */
export const kubeProxyStopped: Fault = {
  name: `kube-proxy on the VIP holder stopped for ${proxyStop.words}`,
  maxFailed: 0,
  durationMs: proxyStop.lengthMs + 5000,
  run: async (lab, { holder }) => {
    await lab.service(holder, 'kube-proxy').stop();
    await sleep(proxyStop.lengthMs);
    await lab.start(holder, 'kube-proxy');
  },
};

/** As an upgrade does it. */
export const rollingRestart: Fault = {
  name: 'all apiservers restarted, one after the other',
  maxFailed: 0,
  durationMs: 75_000,
  run: async (lab) => {
    for (const { name } of masters) await restartApiserver(lab, name);
  },
};

/** Who has the VIP now, and one who has not. */
export async function assignRoles(lab: Lab): Promise<Roles> {
  const [holder = ''] = await lab.listHolders();
  const others = masters.map(({ name }) => name).filter((name) => name !== holder);
  return { holder, other: others.at(-1) ?? '' };
}

async function restart(lab: Lab, host: string, component: Component): Promise<void> {
  await lab.service(host, component).stop();
  await lab.start(host, component);
}

async function startApiserver(lab: Lab, { other }: Roles): Promise<void> {
  await lab.start(other, 'kube-apiserver');
  await waitForApiservers(lab, [other]);
}

/** As the kubelet does: SIGTERM, and SIGKILL for one that still serves open watches. */
export async function stopApiserver(lab: Lab, master: string): Promise<void> {
  const apiserver = lab.service(master, 'kube-apiserver');
  await apiserver.signal('TERM');
  await sleep(graceMs);
  await apiserver.stop('KILL');
}

async function restartApiserver(lab: Lab, master: string): Promise<void> {
  await stopApiserver(lab, master);
  await lab.start(master, 'kube-apiserver');
  await waitForApiservers(lab, [master]);
  await waitForBalance(lab);
}

/** A fault that may cost connections costs any number here, within so much time. */
export function allowDrops(fault: Fault, maxWindowMs: number): Fault {
  const { maxFailed, ...rest } = fault;
  return maxFailed === 0 ? fault : { ...rest, maxWindowMs };
}
