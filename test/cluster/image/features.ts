import { once } from 'node:events';
import { expect, test } from '@jest/globals';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { type Lab } from '../../../lab/control-plane/lab.ts';
import { type Machine, runShell } from '../../../lab/machines/machine.ts';
import { apiserverPort, masters } from '../../support/network/layout.ts';
import { type Podman } from './podman.ts';

/** What a lab's masters have nothing of, in a container or not: kubeadm did not make them, and keepalived follows the lab's own agents. */
const nothingOnLab = [
  /^none of kubeadm's kubeconfigs is in \/etc\/kubernetes$/,
  /^no keepalived is configured here to follow /,
  // Nor is all that a host has mounted in a container.
  /^this container does not see the host's \/etc\//,
];

/** An agent in a container on a master. */
export interface RunningPod {
  readonly lab: Lab;
  readonly node: Machine;
  readonly podman: Podman;
  /** The container's. */
  readonly name: string;
  /** Why `doctor` leaves out checks there. */
  readonly cannot: readonly RegExp[];
}

const limitMs = 120_000;

/** A death is seen in about a second, on a quiet machine. */
const noticeLimitMs = 30_000;

/** With a choice of three, all of them miss one apiserver once in 10,000 times. */
const connections = 24;

/** Whatever vipnat does beside balancing it has to do under these rights as well. */
export function testFeatures(pod: () => RunningPod): void {
  const vipnat = async (command: string, ...words: string[]) => {
    const { podman, name, lab } = pod();
    return await podman.exec(name, ['vipnat', command, '--vip', lab.vip, ...words]);
  };
  const isInSync = async () => (await vipnat('check')).exitCode === 0;

  test(
    'plan, status and doctor say in it what they say on a host',
    async () => {
      expect(await vipnat('plan')).toMatchObject({ exitCode: 0 });
      const { exitCode, stdout } = await vipnat('status', '--json');
      const { agent, vips } = JSON.parse(stdout) as Status;
      expect({ exitCode, isRunning: agent.running }).toEqual({ exitCode: 0, isRunning: true });
      expect(vips.map(({ backends }) => backends.map(({ state }) => state))).toEqual([
        ['ready', 'ready', 'ready'],
      ]);
      const { checks } = JSON.parse((await vipnat('doctor', '--json')).stdout) as Diagnosis;
      expect(checks.filter(({ level }) => level === 'fail')).toEqual([]);
      const skipped = checks.flatMap(({ level, reason = '' }) => (level === 'skipped' ? [reason] : []));
      // docs/install.md and docs/doctor.md say so.
      const known = [...pod().cannot, ...nothingOnLab];
      expect(skipped.filter((reason) => !known.some((pattern) => pattern.test(reason)))).toEqual([]);
    },
    limitMs,
  );

  test(
    'repairs rules that are flushed on the node',
    async () => {
      await runShell(pod().node, 'iptables-nft -t nat -F PREROUTING; iptables-nft -t nat -F OUTPUT');
      await waitFor(isInSync, noticeLimitMs);
      expect((await vipnat('check')).stdout).toContain('3 apiservers');
    },
    limitMs,
  );

  test(
    'resets what hangs on an apiserver that is cut off, and leaves that out until it is back',
    async () => {
      const { lab, node, podman, name } = pod();
      const other = masters.find((master) => master.name !== node.name)?.name ?? '';
      const clients = await openConnections(lab);
      try {
        await lab.cut(other);
        await waitFor(
          async () =>
            / vipnat reset \d+ stale connections? of \S+ to .*:6443/.test(await podman.readLog(name)),
          noticeLimitMs,
        );
        expect((await vipnat('check')).stdout).toContain('2 apiservers');
      } finally {
        clients.end();
        await lab.join(other);
      }
      await waitFor(async () => (await vipnat('check')).stdout.includes('3 apiservers'), noticeLimitMs);
    },
    limitMs,
  );

  test(
    'keeps on the node what it knows, and tells keepalived there that the node can serve',
    async () => {
      const { node } = pod();
      const state = JSON.parse(await runShell(node, 'cat /var/lib/vipnat/endpoints.json')) as object;
      for (const { addresses } of masters) expect(JSON.stringify(state)).toContain(addresses.ipv4);
      // What keepalived subtracts from its priority: nothing.
      expect(await runShell(node, 'cat /run/vipnat/keepalived/serving')).toMatch(/^0\n?$/);
      const files = await runShell(node, 'stat -c "%u %a" /var/lib/vipnat/* /run/vipnat/keepalived/serving');
      expect(files.trim().split('\n')).toEqual(['0 644', '0 644']);
    },
    limitMs,
  );
}

/** Of `status --json`. */
interface Status {
  readonly agent: { readonly running: boolean };
  readonly vips: readonly { readonly backends: readonly { readonly state: string }[] }[];
}

/** Of `doctor --json`. */
interface Diagnosis {
  readonly checks: readonly { readonly level: string; readonly reason?: string }[];
}

/** Connections through the VIP on which nothing is said, from outside the cluster, until they are ended. */
async function openConnections(lab: Lab): Promise<{ end: () => void }> {
  const address = `/dev/tcp/${lab.vip}/${apiserverPort}`;
  const program = `for i in $(seq ${connections}); do exec {fd}<>${address}; done; echo open; exec cat`;
  const clients = lab.machine('client').spawn(['bash', '-c', program]);
  if (clients.stdout === null) throw new Error('no output of it can be read');
  await once(clients.stdout, 'data');
  return { end: () => clients.stdin?.end() };
}
