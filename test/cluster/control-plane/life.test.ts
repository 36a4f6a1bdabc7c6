import { jest, afterEach, describe, test, expect } from '@jest/globals';
import { join } from 'node:path';
import { rootFolder } from '../../../tools/lab/settings/folders.ts';
import { execa } from 'execa';
import { readState, locateLab } from '../../../tools/lab/control-plane/state.ts';
import { readlinkSync, openSync, readFileSync, readdirSync, closeSync, existsSync } from 'node:fs';
import { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { runFolder } from '../../../tools/lab/components/agent.ts';
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { once } from 'node:events';
import { raiseLab } from '../../../tools/lab/control-plane/raise.ts';
import { defaultOptions } from '../../../tools/lab/settings/options.ts';
import { LabError } from '../../../tools/lab/settings/error.ts';

jest.setTimeout(400_000);

const script = join(rootFolder, 'scripts/lab');
const name = `test-${process.pid}-life`;
const otherName = `${name}-other`;

const lab = (...words: string[]) => execa(script, words, { reject: false });

/** Open descriptors of the labs' networks. As long as one is open, the kernel gives its number to no other namespace. */
const networks: number[] = [];

/** The namespaces that a lab is made of, as long as it is there. Numbers of networks stay theirs until the test ends. */
function listNamespaces(): Set<string> {
  const sandbox = readState(name)?.sandbox.pid ?? 0;
  const processes = readProcesses((pid) => readlinkSync(`/proc/${pid}/ns/pid`));
  const inside = readlinkSync(`/proc/${sandbox}/ns/pid_for_children`);
  const kinds = ['net', 'mnt', 'uts', 'pid', 'ipc'];
  const members = new Set(processes.filter(([, namespace]) => namespace === inside).map(([pid]) => pid));
  const all = kinds.flatMap((kind) =>
    readProcesses((pid) => (members.has(pid) ? readlinkSync(`/proc/${pid}/ns/${kind}`) : ''))
      .map(([, namespace]) => namespace)
      .filter((namespace) => namespace !== ''),
  );
  for (const pid of members) networks.push(...openNetwork(pid));
  const ours = new Set(kinds.map((kind) => readlinkSync(`/proc/self/ns/${kind}`)));
  return new Set(all.filter((namespace) => !ours.has(namespace)));
}

/** One descriptor, or none of a process that went away. */
function openNetwork(pid: string): number[] {
  try {
    return [openSync(`/proc/${pid}/ns/net`, 'r')];
  } catch {
    return [];
  }
}

/** What is left of a lab that consisted of these namespaces: members of them, processes with its files, mounts. */
function findRemains(namespaces: ReadonlySet<string>): string[] {
  const members = readProcesses((pid) => readlinkSync(`/proc/${pid}/ns/net`)).filter(([, namespace]) =>
    namespaces.has(namespace),
  );
  const users = readProcesses((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8')).filter(([, command]) =>
    command.includes(`/labs/${name}/`),
  );
  const mounts = readFileSync('/proc/mounts', 'utf8').split('\n');
  const held = mounts.filter((line) => line.includes(`/labs/${name}`));
  return [...members, ...users, ...held].map(String);
}

/** Processes that go away meanwhile are none. */
function readProcesses(read: (pid: string) => string): [pid: string, text: string][] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .flatMap((pid) => {
      try {
        return [[pid, read(pid)] as [string, string]];
      } catch {
        return [];
      }
    });
}

afterEach(async () => {
  for (const descriptor of networks.splice(0)) closeSync(descriptor);
  for (const each of [name, otherName]) await Lab.find(each)?.down();
});

describe('a lab by hand', () => {
  test('comes up, is what it is asked for, runs commands, and leaves nothing when it goes', async () => {
    expect(await lab('up', '--name', name, '--proxy-mode', 'nftables')).toMatchObject({ exitCode: 0 });
    const status = await lab('status', '--name', name);
    expect(status.stdout).toContain('kube-proxy in nftables mode');
    expect(status.stdout).toContain('is balanced, and its rules are in sync (direct, 3 apiservers)');
    expect(status.stdout).not.toContain('NOT RUNNING');

    const check = await lab('exec', '--name', name, 'm2', 'scripts/vipnat', 'check', '--vip', '10.77.0.50');
    expect(check.exitCode).toBe(0);
    expect(check.stdout).toContain('balanced, and its rules are in sync');
    const words = ['doctor', '--json', '--run-dir', runFolder, '--vip', '10.77.0.50'];
    const doctor = await lab('exec', '--name', name, 'm1', 'scripts/vipnat', ...words);
    const { checks } = JSON.parse(doctor.stdout) as { checks: { code: string; level: string }[] };
    // All that can be said against a lab: its apiservers are not set as they should be.
    expect(checks.filter(({ level }) => level !== 'ok')).toMatchObject([
      { code: 'no-shutdown-delay', level: 'warn' },
      // kubeadm did not make these masters.
      { code: 'kubeconfig-at-vip', level: 'skipped' },
      { code: 'kubeconfig-past-vip', level: 'skipped' },
    ]);
    const echo = await execa(script, ['exec', '--name', name, 'worker', 'sh', '-c', 'cat; exit 3'], {
      reject: false,
      input: 'through',
    });
    expect(echo).toMatchObject({ exitCode: 3, stdout: 'through' });

    const again = await lab('up', '--name', name);
    expect(again.exitCode).toBe(1);
    expect(again.stderr).toContain(`the lab ${name} is up already`);

    const namespaces = listNamespaces();
    // The sandbox and five machines; three of them with a pod.
    expect(namespaces.size).toBeGreaterThan(15);
    expect(await lab('down', '--name', name)).toMatchObject({ exitCode: 0 });
    expect(findRemains(namespaces)).toEqual([]);
    expect(existsSync(locateLab(name))).toBe(false);
  });

  test('two of them side by side do not know of each other', async () => {
    const ups = [name, otherName].map((each) => lab('up', '--name', each));
    expect(await Promise.all(ups)).toMatchObject([{ exitCode: 0 }, { exitCode: 0 }]);
    expect(await lab('down', '--name', name)).toMatchObject({ exitCode: 0 });
    const request = ['curl', '-sk', 'https://10.77.0.50:6443/readyz'];
    expect(await lab('exec', '--name', otherName, 'client', ...request)).toMatchObject({ stdout: 'ok' });
    expect(await lab('exec', '--name', name, 'client', ...request)).toMatchObject({ exitCode: 1 });
  });

  test('is left alone by other commands on its way up, and leaves nothing when it is interrupted there', async () => {
    const up = spawn(script, ['up', '--name', name], { stdio: 'ignore' });
    while (readState(name) === null) await sleep(20);
    const namespaces = listNamespaces();
    const changes = [['up'], ['down'], ['off', 'm1'], ['on', 'm1']];
    const refused = await Promise.all(changes.map((words) => lab(...words, '--name', name)));
    const sentence = `lab: another command is changing the lab ${name} (scripts/lab up, process ${up.pid}). Try again when that command has ended`;
    for (const each of refused)
      expect(each).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(sentence) });
    expect(up.exitCode).toBeNull();
    expect(readState(name)).not.toBeNull();
    up.kill('SIGINT');
    await once(up, 'exit');
    await waitUntilGone(namespaces);
    expect(existsSync(locateLab(name))).toBe(false);
  });

  test('a component that dies on the way up ends it, with the last lines that it printed', async () => {
    const raising = raiseLab({ ...defaultOptions, name });
    const failure = expect(raising).rejects.toThrow(LabError);
    const message = expect(raising).rejects.toThrow(
      /kube-apiserver on m2 has ended: [^\n]*\nThe end of [^\n]*:\n.{40}/s,
    );
    while (readState(name) === null) await sleep(20);
    const namespaces = listNamespaces();
    const victim = Lab.find(name)?.service('m2', 'kube-apiserver');
    while ((await victim?.isRunning()) === false) await sleep(20);
    await sleep(1000);
    await victim?.signal('KILL');
    await Promise.all([failure, message]);
    await waitUntilGone(namespaces);
  });

  test.each([
    [['status', '--name', 'nobody'], 'no lab called nobody is up'],
    [['exec', '--name', 'nobody', 'm1', 'true'], 'no lab called nobody is up'],
    [['build', '--kubernetes', '1.99.0'], 'the module proxy has no k8s.io/kubernetes@v1.99.0'],
    [['up', '--proxy-mode', 'ebpf'], "argument 'ebpf' is invalid"],
    [['dwon'], "unknown command 'dwon'"],
  ])('%j is refused in one line that says why', async (words, message) => {
    const { exitCode, stderr } = await lab(...words);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^lab: /m);
    expect(stderr).toContain(message);
    expect(stderr).not.toMatch(/^ {4}at /m);
  });
});

async function waitUntilGone(namespaces: ReadonlySet<string>): Promise<void> {
  const until = performance.now() + 5000;
  for (let remains = findRemains(namespaces); remains.length > 0; remains = findRemains(namespaces)) {
    if (performance.now() > until) throw new Error(`something is left: ${remains.join('; ')}`);
    await sleep(50);
  }
}
