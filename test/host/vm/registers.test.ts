import { jest, beforeAll, afterAll, test, expect } from '@jest/globals';
import { machineLimitMs, runInMachine } from './machine.ts';
import { fileURLToPath } from 'node:url';
import { TemporaryFolder } from '../../support/network/at-end.ts';
import { join } from 'node:path';
import { execFileSync } from 'node:child_process';
import { provideWholeRegisters } from '../../../tools/lab/build/whole-registers.ts';

jest.setTimeout(machineLimitMs);

const fromHere = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const folder = new TemporaryFolder('registers');
/** In place of a host with AMX. */
const host = join(folder.path, 'large-registers.so');

beforeAll(() => {
  execFileSync('cc', ['-shared', '-fPIC', '-o', host, fromHere('large-registers.c')]);
});

afterAll(() => {
  folder.remove();
});

const compute = (libraries: readonly string[]) => runInMachine(fromHere('registers-guest.ts'), libraries);

test('where a processor has more registers than user-mode Linux has room for, its first process cannot start', async () => {
  await expect(compute([host])).rejects.toThrow('ptrace set fp regs failed, errno = 14');
});

test('with the library for it, each process keeps its own registers there', async () => {
  const expected = [0, 1, 2].map((index) =>
    execFileSync(process.execPath, [fromHere('computation.ts'), String(index)], { encoding: 'utf8' }),
  );
  expect(await compute([await provideWholeRegisters(), host])).toEqual(expected);
});
