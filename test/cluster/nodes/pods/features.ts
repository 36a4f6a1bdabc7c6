import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { type CommandResult, runShell } from '../../../../tools/lab/machines/machine.ts';
import { test, expect, beforeAll } from '@jest/globals';
import { readHealthCheck } from '../../../support/image/health-check.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';
import { masters, apiserverPort } from '../../../support/network/layout.ts';
import { readLog } from './agents.ts';
import { once } from 'node:events';

/** With a choice of three, all of them miss one apiserver once in 10,000 times. */
const connections = 24;

export interface AgentPod {
  readonly node: string;
  readonly name: string;
}

/** The bits of NET_BIND_SERVICE, NET_ADMIN and NET_RAW in /proc/PID/status, by capabilities(7). */
const networkCapabilities = ((1n << 10n) | (1n << 12n) | (1n << 13n)).toString(16).padStart(16, '0');

/** What /proc/PID/status has of an agent of least privilege. */
export const leastPrivilege = {
  CapEff: networkCapabilities,
  CapBnd: networkCapabilities,
  NoNewPrivs: '1',
  // A filter of system calls, by seccomp(2).
  Seccomp: '2',
} as const;

/** Why doctor leaves out checks in a pod of least privilege. */
export const cannotWithLeastPrivilege = [
  /does not see the host's processes \(hostPID\)$/,
  /^this container does not see the host's \/etc\//,
  // The pod of keepalived has processes of its own, too.
  /^no keepalived is configured here to follow /,
  /^tcpdump may not give up root's rights here /,
];

/** What an agent is, by its /proc/PID/status. */
export async function readProcessStatus(
  lab: NodeLab,
  agent: AgentPod,
): Promise<Readonly<Record<string, string>>> {
  const { stdout } = await runIn(lab, agent, ['cat', '/proc/1/status']);
  return Object.fromEntries(
    stdout.split('\n').map((line) => {
      const [key = '', value = ''] = line.split(/:?\s+/);
      return [key, value];
    }),
  );
}

/** Runs a command in an agent's container. Never rejects for a failure. */
export async function runIn(
  lab: NodeLab,
  { name }: AgentPod,
  command: readonly string[],
): Promise<CommandResult> {
  return await lab.kubectl(['exec', '--namespace', 'kube-system', name, '--', ...command]);
}

/**
 * Tests that an agent's pod on the VIP's holder says what an agent on a host says.
 * @param cannot why `doctor` leaves out checks in it: just these reasons, as docs/install.md has them
 */
export function testLooks(
  lab: () => NodeLab,
  findAgent: () => Promise<AgentPod>,
  cannot: readonly RegExp[],
): void {
  test('plan, status and doctor say in it what they say on a host', async () => {
    const agent = await findAgent();
    const vipnat = (...words: string[]) => runIn(lab(), agent, ['vipnat', ...words]);
    expect(await vipnat('plan')).toMatchObject({ exitCode: 0 });
    const { exitCode, stdout } = await vipnat('status', '--json');
    const status = JSON.parse(stdout) as Status;
    expect({ exitCode, isRunning: status.agent.running }).toEqual({ exitCode: 0, isRunning: true });
    expect(status.vips.map(({ backends }) => backends.map(({ state }) => state))).toEqual([
      ['ready', 'ready', 'ready'],
    ]);
    const { checks } = JSON.parse((await vipnat('doctor', '--json')).stdout) as Diagnosis;
    expect(checks.filter(({ level }) => level === 'fail')).toEqual([]);
    const skipped = checks.flatMap(({ level, reason = '' }) => (level === 'skipped' ? [reason] : []));
    expect(skipped.filter((reason) => !cannot.some((pattern) => pattern.test(reason)))).toEqual([]);
    expect(cannot.filter((pattern) => !skipped.some((reason) => pattern.test(reason)))).toEqual([]);
  });

  test('is healthy, and leaves no dead processes behind', async () => {
    const agent = await findAgent();
    expect(await runIn(lab(), agent, readHealthCheck())).toMatchObject({ exitCode: 0 });
    const listDead = ['sh', '-c', 'grep -l "^State:.Z" /proc/[0-9]*/status'];
    // A tool that has just ended is dead until the agent's next turn.
    await waitUntil('no process is a zombie', async () => {
      const { stdout } = await runIn(lab(), agent, listDead);
      return stdout === '' ? null : stdout;
    });
    const { VmRSS: now, VmHWM: most } = await readProcessStatus(lab(), agent);
    process.stderr.write(`${agent.name}: ${toMegabytes(now)} of memory, ${toMegabytes(most)} at most\n`);
  });
}

/** Tests that an agent's pod on the VIP's holder does under its rights whatever an agent does beside balancing. */
export function testRights(lab: () => NodeLab, findAgent: () => Promise<AgentPod>): void {
  let agent: AgentPod;
  beforeAll(async () => {
    agent = await findAgent();
  });
  const check = () => runIn(lab(), agent, ['vipnat', 'check']);

  test('repairs rules that are flushed on the node', async () => {
    const node = lab().machine(agent.node);
    const saved = await runShell(node, 'iptables-nft-save -t nat');
    await runShell(node, 'iptables-nft -t nat -F PREROUTING; iptables-nft -t nat -F OUTPUT');
    await waitForCheck(check, '3 apiservers');
    // kube-proxy looks for its own jumps once an hour, and pods reach no ClusterIP without them.
    const jumps = saved
      .split('\n')
      .filter((rule) => /^-A (PREROUTING|OUTPUT) .*-j KUBE-SERVICES$/.test(rule));
    expect(jumps).toHaveLength(2);
    await runShell(node, jumps.map((rule) => `iptables-nft -t nat ${rule}`).join('\n'));
    await waitForCheck(check, '3 apiservers');
  });

  test('resets what hangs on an apiserver that is cut off, and leaves that out until it is back', async () => {
    const other = masters.find((master) => master.name !== agent.node)?.name ?? '';
    const clients = await openConnections(lab());
    try {
      await lab().cut(other);
      await waitUntil('the agent resets what hung', async () => {
        const log = await readLog(lab(), agent.name);
        return / vipnat reset \d+ stale connections? of \S+ to .*:6443/.test(log) ? null : log;
      });
      await waitForCheck(check, '2 apiservers');
    } finally {
      clients.end();
      await lab().join(other);
    }
    await waitForCheck(check, '3 apiservers');
  });

  test('keeps on the node what it knows, and tells keepalived there that the node can serve', async () => {
    const node = lab().machine(agent.node);
    const state = JSON.parse(await runShell(node, 'cat /var/lib/vipnat/endpoints.json')) as object;
    for (const { addresses } of masters) expect(JSON.stringify(state)).toContain(addresses.ipv4);
    // What keepalived subtracts from its priority: nothing.
    expect(await runShell(node, 'cat /run/vipnat/keepalived/serving')).toMatch(/^0\n?$/);
    const files = await runShell(node, 'stat -c "%u %a" /var/lib/vipnat/* /run/vipnat/keepalived/serving');
    expect(files.trim().split('\n')).toEqual(['0 644', '0 644']);
  });
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

function toMegabytes(kilobytes = ''): string {
  return `${(Number(kilobytes) / 1000).toFixed(0)} MB`;
}

async function waitForCheck(check: () => Promise<CommandResult>, expected: string): Promise<void> {
  await waitUntil(`check says ${expected}`, async () => {
    const { exitCode, stdout, stderr } = await check();
    return exitCode === 0 && stdout.includes(expected) ? null : `${stdout}${stderr}`;
  });
}

/** Connections through the VIP on which nothing is said, from outside the cluster, until they are ended. */
async function openConnections(lab: NodeLab): Promise<{ end: () => void }> {
  const address = `/dev/tcp/${lab.vip}/${apiserverPort}`;
  const program = `for i in $(seq ${connections}); do exec {fd}<>${address}; done; echo open; exec cat`;
  const clients = lab.machine('client').spawn(['bash', '-c', program]);
  if (clients.stdout === null) throw new Error('no output of it can be read');
  await once(clients.stdout, 'data');
  return { end: () => clients.stdin?.end() };
}
