import { Sandbox } from '../../../tools/lab/machines/sandbox.ts';
import { type Machine, runShell } from '../../../tools/lab/machines/machine.ts';
import { beforeAll, afterAll, describe, test, expect } from '@jest/globals';
import { makeFolder } from '../../support/network/own-folder.ts';
import { NamespaceMachine } from '../../../tools/lab/machines/namespace-machine.ts';
import { VirtualMachine } from '../../../tools/lab/guest/virtual-machine.ts';
import { once } from 'node:events';
import { Service } from '../../../tools/lab/machines/service.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';

const maxWaitMs = 20_000;

let sandbox: Sandbox;
const folder = makeFolder('machine');
const kindToMachine = new Map<string, Machine>();

beforeAll(async () => {
  sandbox = await Sandbox.create();
  kindToMachine.set('namespace', await NamespaceMachine.create(sandbox, 'plain'));
  const enclosure = await NamespaceMachine.create(sandbox, 'virtual');
  await runShell(enclosure, 'ip link add eth0 type veth peer name far; ip link set far up');
  kindToMachine.set('virtual', await VirtualMachine.boot(enclosure, folder, { index: 0 }));
});

afterAll(async () => {
  await sandbox.remove();
});

describe.each(['namespace', 'virtual'])('a %s machine', (kind) => {
  const machine = () => {
    const found = kindToMachine.get(kind);
    if (found === undefined) throw new Error('it was not made');
    return found;
  };

  test('runs a command with its input and variables, and answers all that it printed and its exit status', async () => {
    const command = ['sh', '-c', 'cat; echo "$word" >&2; exit 3'];
    const result = await machine().run(command, { input: 'in\n', environment: { word: 'there' } });
    expect(result).toEqual({ exitCode: 3, stdout: 'in', stderr: 'there' });
  });

  test('has a name, interfaces and a /run of its own', async () => {
    expect(await runShell(machine(), 'hostname')).toBe(machine().name);
    expect(await runShell(machine(), 'ip -o link')).not.toContain('bridge');
    await runShell(machine(), 'ip netns add pod; ip netns exec pod ip link set lo up');
    expect(await runShell(machine(), 'ls /run/netns')).toBe('pod');
  });

  test('kills a command that takes too long, and says so', async () => {
    const { exitCode } = await machine().run(['sleep', '71'], { limitMs: 1500 });
    expect(exitCode).toBe(137);
    expect(await listCommands('sleep 71')).toEqual([]);
  });

  test('a process ends with its standard input, and its output comes back whole', async () => {
    const child = machine().spawn(['sh', '-c', 'cat; head -c 3000000 /dev/zero']);
    let length = 0;
    child.stdout?.on('data', (bytes: Buffer) => (length += bytes.length));
    child.stdin?.end('12345');
    expect(await once(child, 'close')).toEqual([0, null]);
    expect(length).toBe(3_000_005);
  });

  test('a service lives on in the background, is told from one that has ended, and leaves its log', async () => {
    const service = new Service(machine(), `sleeper-${kind}`, folder);
    expect(await service.isRunning()).toBe(false);
    await service.start(['sh', '-c', 'echo begins; exec sleep 72']);
    expect(await service.isRunning()).toBe(true);
    // On a busy machine it begins later than it is there, and what a virtual machine writes comes here a moment later.
    await waitFor(async () => {
      await machine().run(['sync']);
      return service.readTail() === 'begins';
    }, maxWaitMs);
    await service.stop();
    expect(await service.isRunning()).toBe(false);
    expect(service.readTail()).toBe('begins');
  });

  async function listCommands(words: string): Promise<string[]> {
    const { stdout } = await machine().run(['ps', 'ax', '-o', 'args=']);
    return stdout.split('\n').filter((line) => line.startsWith(words));
  }
});
