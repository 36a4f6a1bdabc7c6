import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { testSevenCases } from '../control-plane/seven-cases.ts';
import { useLab } from '../control-plane/with-lab.ts';
import { type Machine, runShell } from '../../../lab/machines/machine.ts';
import { findPodSpec, parse } from '../../support/manifest/printing.ts';
import { useImage } from './use-image.ts';
import { grantCredentials } from './credentials.ts';
import { testFeatures } from './features.ts';
import { readHealthCheck } from '../../support/image/health-check.ts';
import { type PodContainer, toPodContainer } from './pod.ts';
import { Podman } from './podman.ts';

const limitMs = 120_000;
const startLimitMs = 60_000;
const followed = / follows the API at /;

/** Prints nothing when no process is a zombie. */
const listDead = ['sh', '-c', 'grep -l "^State:.Z" /proc/[0-9]*/status'];

/** `podman stop` waits for as long as the manifest grants before it kills. */
const promptMs = 6000;

/** The bits of NET_ADMIN and NET_RAW in /proc/PID/status, by capabilities(7). */
const networkCapabilities = ((1n << 12n) | (1n << 13n)).toString(16).padStart(16, '0');

/** /proc/PID/status of a container's first process. */
type Status = Readonly<Record<string, string>>;

interface Case {
  /** What is behind `vipnat manifest`. */
  readonly kind: string;
  /** What the first process has to be. */
  readonly status: Status;
  readonly isRootWritable: boolean;
  /** Why `doctor` has to leave out checks. */
  readonly cannot: readonly RegExp[];
}

/** An apiserver is known by its process, or by the manifest that the lab has none of. */
const seesNoProcesses = [
  /does not see the host's processes \(hostPID\)$/,
  /^this node shows no kube-apiserver, and no manifest of one$/,
];

const leastPrivilege = {
  status: { CapEff: networkCapabilities, CapBnd: networkCapabilities, NoNewPrivs: '1', Seccomp: '2' },
  isRootWritable: false,
  cannot: [...seesNoProcesses, /^tcpdump may not give up root's rights here/],
};
const cases: readonly Case[] = [
  { kind: 'static-pod', ...leastPrivilege },
  { kind: 'daemonset --least-privilege', ...leastPrivilege },
  {
    kind: 'daemonset',
    status: { NoNewPrivs: '0', Seccomp: '0' },
    isRootWritable: true,
    cannot: seesNoProcesses,
  },
];

const name = 'vipnat';
const image = useImage();
const lab = useLab({ agentArguments: [] }, { hasAgents: false });
let node: Machine;
let podman: Podman;

beforeAll(async () => {
  // Only there anybody notices whether the VIP is balanced.
  const [holder = ''] = await lab().listHolders();
  node = lab().machine(holder);
  podman = await Podman.create(node, image());
}, limitMs);

describe.each(cases)('as `vipnat manifest $kind` has it, a container on a master', (each) => {
  let container: PodContainer;
  const check = () => podman.exec(name, ['vipnat', 'check', '--vip', lab().vip]);

  beforeAll(async () => {
    const words = [...each.kind.split(' '), '--vip', lab().vip, '--ca-file', lab().certificates.authority];
    const { stdout } = await podman.run([], image().name, ['manifest', ...words]);
    container = toPodContainer(findPodSpec(stdout), { name: node.name });
    await runShell(node, container.preparation);
    const credentials = container.hasCredentials ? await grantCredentials(lab(), parse(stdout)) : [];
    await podman.start(name, [...container.flags, ...credentials], container.image, container.args);
    await waitFor(async () => (await check()).exitCode === 0, startLimitMs);
    // Balanced by what the kernel says, it has yet to hear from the API.
    await waitFor(
      async () => !container.hasCredentials || followed.test(await podman.readLog(name)),
      startLimitMs,
    );
  }, limitMs);

  afterAll(async () => {
    await podman.ask(['rm', '--force', '--ignore', name]);
  }, limitMs);

  test(
    'has just those rights, and balances over all apiservers',
    async () => {
      const status = await readStatus();
      expect(status).toMatchObject({ Uid: '0', ...each.status });
      const { exitCode } = await podman.exec(name, ['touch', '/usr/new']);
      expect(exitCode === 0).toBe(each.isRootWritable);
      const { exitCode: checked, stdout } = await check();
      expect({ checked, stdout }).toEqual({ checked: 0, stdout: expect.stringContaining('3 apiservers') });
      process.stderr.write(
        `vipnat manifest ${each.kind}: ${toMegabytes(status['VmRSS'])} of memory, ${toMegabytes(status['VmHWM'])} at most\n`,
      );
    },
    limitMs,
  );

  test(
    'learns the apiservers from the API when it has credentials, and else from the kernel',
    async () => {
      const log = await podman.readLog(name);
      expect(log).toMatch(/ info {2}vipnat \S+ runs, pid 1$/m);
      expect(followed.test(log)).toBe(container.hasCredentials);
      expect(log).not.toMatch(/ (?:error|warn) /);
    },
    limitMs,
  );

  testSevenCases(lab, ['VIP']);

  testFeatures(() => ({ lab: lab(), node, podman, name, cannot: each.cannot }));

  test(
    'is healthy, and leaves no dead processes behind',
    async () => {
      const [command = '', ...words] = readHealthCheck();
      expect(await podman.exec(name, [command, ...words])).toMatchObject({ exitCode: 0 });
      // A tool that has just ended is dead until the agent's next turn.
      await waitFor(async () => (await podman.exec(name, listDead)).stdout === '', promptMs);
    },
    limitMs,
  );

  test(
    'ends at once when it is stopped, leaves its rules, and `cleanup` in a container takes them away',
    async () => {
      const before = await readRules();
      expect(before).toContain('VIPNAT');
      const started = performance.now();
      await podman.ask(['stop', '--time', String(container.stopLimitSeconds), name]);
      expect(performance.now() - started).toBeLessThan(promptMs);
      expect(await podman.ask(['inspect', '--format', '{{.State.ExitCode}}', name])).toBe('0');
      expect(await readRules()).toBe(before);

      const unhealthy = await podman.run(
        ['--network=host', '--entrypoint', ''],
        image().name,
        readHealthCheck(),
      );
      expect(unhealthy).toMatchObject({ exitCode: 1, stdout: 'unhealthy: no agent runs here' });
      expect(await podman.run(readCleanupFlags(), container.image, ['cleanup'])).toMatchObject({
        exitCode: 0,
      });
      expect(await readRules()).toBe('');
    },
    limitMs,
  );
});

async function readStatus(): Promise<Status> {
  const { stdout } = await podman.exec(name, ['cat', '/proc/1/status']);
  const lines = stdout.split('\n').map((line) => line.split(/:?\s+/));
  return Object.fromEntries(lines.map(([key = '', value = '']) => [key, value]));
}

function toMegabytes(kilobytes = ''): string {
  return `${(Number(kilobytes) / 1000).toFixed(0)} MB`;
}

/** Every rule and chain of ours on the node, of either backend. */
async function readRules(): Promise<string> {
  const script =
    '{ iptables-nft-save; iptables-legacy-save; nft list ruleset; } 2>/dev/null | grep -i vipnat | grep -v "^#"';
  return (await node.run(['sh', '-c', script])).stdout.replaceAll(/\[\d+:\d+\]|packets \d+ bytes \d+/g, '');
}

/** What people are told to run it with; podman takes docker's flags. */
function readCleanupFlags(): string[] {
  const [, words = ''] =
    /^docker run (.*) localhost\/vipnat:\S+ cleanup$/m.exec(readFileSync('docs/install.md', 'utf8')) ?? [];
  return words.split(' ');
}
