import { TemporaryFolder } from '../../support/network/at-end.ts';
import { Sandbox } from '../../../tools/lab/machines/sandbox.ts';
import { beforeEach, afterEach, test, expect } from '@jest/globals';
import { VirtualMachine } from '../../../tools/lab/guest/virtual-machine.ts';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { NamespaceMachine } from '../../../tools/lab/machines/namespace-machine.ts';
import { runShell } from '../../../tools/lab/machines/machine.ts';

let folder: TemporaryFolder;
let sandbox: Sandbox;
beforeEach(async () => {
  folder = new TemporaryFolder('failed-boot');
  sandbox = await Sandbox.create();
});
afterEach(async () => {
  await sandbox.remove();
  folder.remove();
});

/** Boots a machine, for whose kernel a script of a shell stands in. */
async function boot(name: string, script: string): Promise<VirtualMachine> {
  const kernel = join(folder.path, `${name}-kernel`);
  writeFileSync(kernel, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const machine = await NamespaceMachine.create(sandbox, name);
  await runShell(machine, 'ip link add eth0 type veth peer name wire');
  return await VirtualMachine.boot(machine, folder.path, { index: 0, kernel });
}

test('a machine that dies at its boot is reported with the end of its console, and nobody waits for the others any more', async () => {
  const boots = [boot('m1', 'echo the console speaks; exit 1'), boot('m2', 'exec sleep infinity')];
  const told = expect(Promise.all(boots)).rejects.toThrow(
    /^the machine takes commands: machine on m1 has ended: .*\nThe end of .*\nthe console speaks$/,
  );
  await told;
  await sandbox.remove();
  const [, other] = await Promise.allSettled(boots);
  const reason = { message: expect.stringMatching(/^m2 is gone/) as unknown };
  expect(other).toMatchObject({ status: 'rejected', reason });
});
