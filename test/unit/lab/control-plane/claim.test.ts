import { fileURLToPath } from 'node:url';
import { spawn } from 'node:child_process';
import { describe, test, expect } from '@jest/globals';
import { claimLab } from '../../../../tools/lab/control-plane/claim.ts';
import { LabError } from '../../../../tools/lab/settings/error.ts';
import { once } from 'node:events';

/** No other run of this file has these. */
const [name, otherName] = [`claim-${process.pid}`, `claim-${process.pid}-other`];

const program = fileURLToPath(new URL('../../../../tools/lab/control-plane/claim.ts', import.meta.url));

/** A process that claims the lab as `up`, and then does whatever a statement says. */
function startClaiming(statement: string) {
  const script = `import { claimLab } from ${JSON.stringify(program)};
await claimLab(${JSON.stringify(name)}, 'up');
setInterval(() => undefined, 1000);
process.stdout.write('claimed');
${statement}`;
  return spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

describe('a lab', () => {
  test('has one command at a time that changes it, and the second one says which', async () => {
    const release = await claimLab(name, 'up');
    const second = claimLab(name, 'on');
    await expect(second).rejects.toThrow(LabError);
    await expect(second).rejects.toThrow(
      `another command is changing the lab ${name} (scripts/lab up, process ${process.pid}). Try again when that command has ended`,
    );
    (await claimLab(otherName, 'up'))();
    release();
    (await claimLab(name, 'on'))();
  });

  test.each([
    ['that works', '', `scripts/lab up, process `],
    ['that is stopped', `process.kill(process.pid, 'SIGSTOP');`, 'it does not say which'],
  ])('is free again when a command %s has been killed', async (_what, statement, said) => {
    const child = startClaiming(statement);
    try {
      await once(child.stdout, 'data');
      // It may be about to stop, or be kept from answering for a moment.
      const refusal = () => claimLab(name, 'up').then(() => 'nothing', String);
      let told = 'changing the lab';
      while (!told.includes(said)) {
        expect(told).toContain('changing the lab');
        told = await refusal();
      }
    } finally {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    (await claimLab(name, 'up'))();
  });
});
