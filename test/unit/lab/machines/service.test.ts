import type { Machine } from '../../../../tools/lab/machines/machine.ts';
import { execa } from 'execa';
import { spawn } from 'node:child_process';
import { Service, waitUntil } from '../../../../tools/lab/machines/service.ts';
import { beforeEach, afterEach, test, expect } from '@jest/globals';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { WaitedTooLong } from '../../../../tools/lab/settings/error.ts';

/** This machine itself, which can be too busy to run anything. */
class ThisMachine implements Machine {
  readonly name = 'm1';
  isBusy = false;

  async run([program = '', ...words]: readonly string[]): ReturnType<Machine['run']> {
    // As the client of a virtual machine that does not answer ends.
    if (this.isBusy) return { exitCode: 255, stdout: '', stderr: 'the machine does not answer' };
    const { exitCode = -1, stdout, stderr } = await execa(program, words, { reject: false });
    return { exitCode, stdout, stderr };
  }

  spawn([program = '', ...words]: readonly string[]): ReturnType<Machine['spawn']> {
    return spawn(program, words);
  }
}

let folder: string;
let machine: ThisMachine;
let service: Service;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'vipnat-service-'));
  machine = new ThisMachine();
  service = new Service(machine, 'sleeper', folder);
  await service.start(['sh', '-c', 'echo it sleeps; exec sleep 600']);
  while (service.readTail() !== 'it sleeps') await sleep(10);
});

afterEach(async () => {
  machine.isBusy = false;
  await service.stop('KILL');
  rmSync(folder, { recursive: true, force: true });
});

const refuse = () => Promise.resolve('drift: a rule is missing\n       somebody took it away\n');

test('a wait in vain tells what was seen last in one line, then what is examined, and the log', async () => {
  const examine = () => Promise.resolve('the apiserver of m2: ready');
  const wait = waitUntil(refuse, { what: 'all is well', service, limitMs: 200, examine });
  await expect(wait).rejects.toThrow(WaitedTooLong);
  await expect(wait).rejects.toThrow(
    [
      'all is well: sleeper on m1 took longer than 0.2 s: drift: a rule is missing | somebody took it away',
      'the apiserver of m2: ready',
      `The end of ${service.logFile}:`,
      'it sleeps',
    ].join('\n'),
  );
});

test('a wait ends at once when the service has ended, and says so', async () => {
  await service.stop();
  const wait = waitUntil(refuse, { what: 'all is well', service, limitMs: 600_000 });
  await expect(wait).rejects.toThrow(/^all is well: sleeper on m1 has ended: drift: /);
  await expect(wait).rejects.toMatchObject({ name: 'LabError' });
});

test('a wait goes on while the machine is too busy to say whether the service runs', async () => {
  machine.isBusy = true;
  let looks = 0;
  const wait = waitUntil(() => Promise.resolve((looks += 1) > 3 ? null : 'not yet'), {
    ...{ what: 'all is well', service, limitMs: 600_000 },
  });
  await expect(wait).resolves.toBeUndefined();
});
