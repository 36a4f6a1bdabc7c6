import { setTimeout as sleep } from 'node:timers/promises';
import { type Component } from '../lab/components/component.ts';
import { type Lab } from '../lab/lab.ts';
import { runShell } from '../lab/machines/machine.ts';
import { waitForApiservers } from '../lab/ready.ts';
import { masters } from '../network/layout.ts';

/** The masters as a fault sees them. */
export interface Roles {
  /** Has the VIP. */
  readonly holder: string;
  /** Another one. */
  readonly other: string;
}

/** Something that goes wrong, and what is done about it. */
export interface Fault {
  readonly name: string;
  /** How long clients are watched from its beginning on. */
  readonly durationMs: number;
  /** How many new connections may fail; any number when left out, as long as it ends. */
  readonly maxFailed?: number;
  /** Whose apiserver the long-lived watch is on. */
  readonly watched?: keyof Roles;
  /** Mends what the one before broke: begins while it is broken. */
  readonly isRemedy?: boolean;
  run(lab: Lab, roles: Roles): Promise<void>;
}

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

/** An apiserver that is gone is an endpoint for up to 26 s (a lease of 15 s, looked at every 10), and kube-proxy hears of it then. */
const leaseMs = 32_000;

/** client-go gives up on a silent connection after 45 s. */
const silenceMs = 55_000;

/** What is over in a few seconds, and seen by hardly any client. */
export const quickFaults: readonly Fault[] = [
  {
    name: 'kube-proxy on the holder restarted',
    maxFailed: 0,
    durationMs: 8000,
    run: (lab, { holder }) => restart(lab, holder, 'kube-proxy'),
  },
  {
    name: 'iptables -t nat -F on the holder',
    maxFailed: 0,
    durationMs: 8000,
    run: async (lab, { holder }) => {
      await runShell(lab.machine(holder), `iptables-${lab.options.iptables} -t nat -F`);
      await sleep(5000);
      // It looks after chains, not rules: by itself it would notice within an hour.
      await restart(lab, holder, 'kube-proxy');
    },
  },
  {
    name: 'a firewall without our rules restored on the holder',
    // Its FORWARD policy drops the answers to what is just under way to another master.
    maxFailed: 5,
    durationMs: 8000,
    run: async (lab, { holder }) => {
      await lab.machine(holder).run([`iptables-${lab.options.iptables}-restore`], { input: savedFirewall });
      await sleep(5000);
      await restart(lab, holder, 'kube-proxy');
    },
  },
  {
    name: 'agent on the holder killed -9, started after 3 s',
    maxFailed: 0,
    durationMs: 8000,
    run: async (lab, { holder }) => {
      await lab.service(holder, 'vipnat').stop('KILL');
      await sleep(3000);
      await lab.start(holder, 'vipnat');
    },
  },
];

/** All of them, in the order in which they are tried. */
export const faults: readonly Fault[] = [
  ...quickFaults,
  {
    name: 'kube-proxy on the holder stopped for a minute',
    maxFailed: 0,
    durationMs: 65_000,
    run: async (lab, { holder }) => {
      await lab.service(holder, 'kube-proxy').stop();
      await sleep(60_000);
      await lab.start(holder, 'kube-proxy');
    },
  },
  {
    name: 'an apiserver stopped',
    durationMs: leaseMs,
    watched: 'other',
    run: (lab, { other }) => lab.service(other, 'kube-apiserver').stop(),
  },
  {
    name: 'that apiserver started',
    isRemedy: true,
    maxFailed: 0,
    durationMs: 20_000,
    run: startApiserver,
  },
  {
    name: 'an apiserver killed -9',
    durationMs: leaseMs,
    watched: 'other',
    run: (lab, { other }) => lab.service(other, 'kube-apiserver').stop('KILL'),
  },
  {
    name: 'that apiserver started',
    isRemedy: true,
    maxFailed: 0,
    durationMs: 20_000,
    run: startApiserver,
  },
  {
    name: 'another master cut from the network',
    durationMs: silenceMs,
    watched: 'other',
    run: (lab, { other }) => lab.cut(other),
  },
  {
    name: 'that master back',
    isRemedy: true,
    maxFailed: 0,
    durationMs: 20_000,
    run: (lab, { other }) => lab.join(other),
  },
  {
    name: "the VIP's holder cut from the network",
    durationMs: silenceMs,
    watched: 'holder',
    run: (lab, { holder }) => lab.cut(holder),
  },
  {
    name: 'that master back',
    isRemedy: true,
    maxFailed: 0,
    durationMs: 20_000,
    // The VIP is elsewhere by now.
    run: async (lab) => {
      for (const { name } of masters) await lab.join(name);
    },
  },
];

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
