import { jest, describe, test, expect } from '@jest/globals';
import { useLab } from './with-lab.ts';
import { join } from 'node:path';
import { runShell } from '../../../tools/lab/machines/machine.ts';
import { defaultAgentArguments } from '../../../tools/lab/components/agent.ts';
import { waitForBalance } from '../../../tools/lab/control-plane/ready.ts';
import { tell } from '../../support/lab/test-lab.ts';
import { masters, apiserverPort } from '../../support/network/layout.ts';
import { connectWitnessed, lostMs } from '../../support/network/witness.ts';
import { listFinders } from '../../support/lab/witnesses.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Lab } from '../../../tools/lab/control-plane/lab.ts';

const limitMs = 20 * 60_000;

jest.setTimeout(limitMs);

/** How often the agent of the VIP's holder is ended and started again. */
const restarts = 100;

/** For how long packets and processor time are counted: some hundred connects to each apiserver. */
const countedMs = 60_000;

/** By then an apiserver that froze is out of use, see docs/benchmarks.md. */
const frozenMs = 10_000;

/** An agent has its rules, and has heard of every apiserver. */
const settledMs = 5000;

/** Linux counts process time in hundredths of a second. */
const millisecondsPerTick = 10;

describe('an agent at its edges', () => {
  const lab = useLab({ proxyMode: 'none' });

  test('which takes every certificate for a wrong one asks the apiservers hardly more often, and costs as little', async () => {
    const wrong = join(lab().folder, 'wrong.crt');
    await runShell(
      lab().machine('m1'),
      `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=other -days 2 \\
           -keyout /dev/null -out ${wrong} 2>/dev/null`,
    );
    const right = await countProbes(lab());
    await lab().service('m1', 'vipnat').stop();
    const agentArguments = [...defaultAgentArguments(lab().options), '--ca-file', wrong];
    await lab().start('m1', 'vipnat', { agentArguments });
    const mistaken = await countProbes(lab());
    await lab().service('m1', 'vipnat').stop();
    await lab().start('m1', 'vipnat');
    await waitForBalance(lab());
    tell(
      `packets to m2 with the right CA ${right.packets}, with a wrong one ${mistaken.packets}; processor ${right.share.toFixed(4)}, ${mistaken.share.toFixed(4)} of a core`,
    );
    expect(right.packets).toBeGreaterThan(100);
    expect(mistaken.packets).toBeLessThanOrEqual(3 * right.packets);
  });

  test(`that is restarted ${restarts} times sends nothing to an apiserver that is frozen all the while`, async () => {
    const [holder = ''] = await lab().listHolders();
    const [frozen] = masters.filter(({ name }) => name !== holder);
    if (frozen === undefined) throw new Error('the VIP has no holder');
    const connects = connectWitnessed(
      (role) => lab().seat('client', role),
      { host: lab().vip, port: apiserverPort, perSecond: 500, durationMs: limitMs, limitMs: lostMs },
      await listFinders(lab(), frozen.name),
    );
    const apiserver = lab().service(frozen.name, 'kube-apiserver');
    await apiserver.signal('STOP');
    try {
      await sleep(frozenMs);
      const toFrozen = `ct state new ct original ip daddr ${lab().vip} ip daddr ${frozen.addresses.ipv4}`;
      await startCounting(lab(), holder, toFrozen);
      for (let index = 0; index < restarts; index += 1) {
        await lab()
          .service(holder, 'vipnat')
          .stop(index % 2 === 0 ? 'TERM' : 'KILL');
        await lab().start(holder, 'vipnat');
        // At a second's end all of the first look and its write are over, and most of a crash loop's life.
        await sleep(1000);
      }
      await waitForBalance(lab(), masters.length - 1);
      expect(await readCount(lab(), holder)).toBe(0);
    } finally {
      await apiserver.signal('CONT');
      await stopCounting(lab(), holder);
    }
    const { sent, failures, lostSyns } = await connects.end();
    expect(sent).toBeGreaterThan(500 * restarts);
    expect({ failures, lostSyns }).toEqual({ failures: [], lostSyns: 0 });
  });
});

interface ProbeFigures {
  /** To the apiserver of m2, from the agent of m1. */
  readonly packets: number;
  /** The agent's own processor time and that of its tools, as a share of one core. */
  readonly share: number;
}

async function countProbes(lab: Lab): Promise<ProbeFigures> {
  await sleep(settledMs);
  const [, other] = masters;
  if (other === undefined) throw new Error('there is one master');
  await startCounting(lab, 'm1', `ct original ip daddr ${other.addresses.ipv4} tcp dport ${apiserverPort}`);
  const before = await readProcessorMs(lab);
  await sleep(countedMs);
  const [packets, after] = [await readCount(lab, 'm1'), await readProcessorMs(lab)];
  await stopCounting(lab, 'm1');
  return { packets, share: (after - before) / countedMs };
}

/** Fields 14 to 17 of proc(5)'s stat, past the name in parentheses: its own time and its children's. */
async function readProcessorMs(lab: Lab): Promise<number> {
  const pid = lab.service('m1', 'vipnat').readPid();
  const { stdout } = await lab.machine('m1').run(['cat', `/proc/${pid}/stat`]);
  const fields = stdout.slice(stdout.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) * millisecondsPerTick;
}

/** Counts the packets that leave a master and match. */
async function startCounting(lab: Lab, master: string, match: string): Promise<void> {
  const rules = `table ip counting { chain leaving { type filter hook postrouting priority 300; ${match} counter; }; }`;
  await runShell(lab.machine(master), `nft -f - <<'END'\n${rules}\nEND`);
}

async function readCount(lab: Lab, master: string): Promise<number> {
  const { stdout } = await lab.machine(master).run(['nft', 'list', 'table', 'ip', 'counting']);
  const [, packets] = /counter packets (\d+)/.exec(stdout) ?? [];
  if (packets === undefined) throw new Error(`no counter: ${stdout}`);
  return Number(packets);
}

async function stopCounting(lab: Lab, master: string): Promise<void> {
  await lab.machine(master).run(['nft', 'delete', 'table', 'ip', 'counting']);
}
