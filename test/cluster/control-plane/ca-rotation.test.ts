import { jest, test, expect } from '@jest/globals';
import { useLab } from './with-lab.ts';
import { masters } from '../../support/network/layout.ts';
import { waitForBalance, waitForApiservers } from '../../../tools/lab/control-plane/ready.ts';
import { measureOutage } from './outage.ts';
import { lostMs } from '../../support/network/witness.ts';
import { writeFileSync, readFileSync } from 'node:fs';
import { formatDuration } from './table.ts';
import { tell } from '../../support/lab/test-lab.ts';
import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { join } from 'node:path';
import { execa } from 'execa';
import { defaultAgentArguments } from '../../../tools/lab/components/agent.ts';
import { stopApiserver } from '../../support/lab/faults.ts';

const limitMs = 900_000;

jest.setTimeout(limitMs);

/** Three restarts of 20 s at most, and what follows from the files. */
const durationMs = 120_000;

/** Five seconds on a quiet machine. */
const maxStepMs = 20_000;

const lab = useLab({ proxyMode: 'none', shutdownDelaySeconds: 5 });

test('a rotation of the CA costs no connection, and after each step every agent uses every apiserver', async () => {
  const authorities = await makeAuthorities(lab());
  for (const { name } of masters) await startAgent(lab(), name);
  await waitForBalance(lab());
  const steps: number[] = [];
  const step = async (act: () => unknown) => {
    await act();
    const startedAt = performance.now();
    await waitForBalance(lab());
    steps.push(performance.now() - startedAt);
  };
  // How long it takes to see that all is well.
  await step(() => undefined);
  const [first = '', ...others] = masters.map(({ name }) => name);
  const outage = await measureOutage(lab(), { durationMs, limitMs: lostMs }, async () => {
    // The files of the agents lag behind its certificate.
    await renewApiserver(lab(), first);
    await step(() => {
      for (const { name } of masters) writeFileSync(authorityOf(lab(), name), authorities.both);
    });
    for (const name of others) await step(() => renewApiserver(lab(), name));
    await step(() => {
      for (const { name } of masters) writeFileSync(authorityOf(lab(), name), authorities.fresh);
    });
  });
  const [pollMs = '', ...stepsMs] = steps.map(formatDuration);
  tell(`all apiservers were seen in use after ${stepsMs.join(', ')}; to see that takes ${pollMs}`);
  expect(outage).toMatchObject({ failed: 0 });
  expect(Math.max(...steps)).toBeLessThanOrEqual(maxStepMs);
});

/** What an agent verifies apiservers by. */
function authorityOf({ folder }: Lab, master: string): string {
  return join(folder, `agent-${master}.crt`);
}

/** Makes another CA. Whoever else asks the apiservers knows both from now on, and an agent the old one. */
async function makeAuthorities(lab: Lab): Promise<{ readonly both: string; readonly fresh: string }> {
  await execa('sh', ['-e', '-s'], {
    cwd: lab.folder,
    input: `openssl ecparam -name prime256v1 -genkey -noout -out fresh.key
      openssl req -x509 -new -key fresh.key -subj /CN=fresh -days 30 -out fresh.crt`,
  });
  const { authority } = lab.certificates;
  const old = readFileSync(authority, 'utf8');
  for (const { name } of masters) writeFileSync(authorityOf(lab, name), old);
  const fresh = readFileSync(join(lab.folder, 'fresh.crt'), 'utf8');
  const both = `${old}${fresh}`;
  writeFileSync(authority, both);
  return { both, fresh };
}

async function startAgent(lab: Lab, master: string): Promise<void> {
  await lab.service(master, 'vipnat').stop();
  const agentArguments = [...defaultAgentArguments(lab.options), '--ca-file', authorityOf(lab, master)];
  await lab.start(master, 'vipnat', { agentArguments });
}

/** Restarts an apiserver with a certificate of the new CA. */
async function renewApiserver(lab: Lab, master: string): Promise<void> {
  await stopApiserver(lab, master);
  await execa('sh', ['-e', '-s'], {
    cwd: lab.folder,
    input: `openssl req -new -key ${master}.key -subj /CN=${master} |
      openssl x509 -req -CA fresh.crt -CAkey fresh.key -CAcreateserial -days 30 -extfile serving.ext -out ${master}.crt`,
  });
  await lab.start(master, 'kube-apiserver');
  await waitForApiservers(lab, [master]);
}
