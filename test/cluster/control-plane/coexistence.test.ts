import { jest, describe, test, expect } from '@jest/globals';
import { useLab } from './with-lab.ts';
import { CoexistenceTable, testModeChanges } from './coexistence-table.ts';
import {
  countRestoreFailures,
  waitFor,
  listServiceChains,
  listReferences,
} from '../../support/lab/kube-proxy-state.ts';
import { masters } from '../../support/network/layout.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  waitForApiservers,
  waitForBalance,
  waitForServices,
} from '../../../tools/lab/control-plane/ready.ts';
import { cleanUpKubeProxy } from '../../../tools/lab/control-plane/kube-proxy-cleanup.ts';

jest.setTimeout(480_000);

/** An agent looks after milliseconds; a busy machine takes longer. */
const releaseLimitMs = 45_000;

/** An apiserver that stops takes itself off the endpoints first. */
const stopGapMs = 3000;

describe('what kube-proxy suffers from us', () => {
  const lab = useLab({ proxyMode: 'iptables', iptables: 'nft' });
  const node = 'm1';
  const machine = () => lab().machine(node);
  const table = new CoexistenceTable(lab, node);

  test('the last endpoint goes away, as all apiservers stop: our jump is released, and the chain goes', async () => {
    const before = await countRestoreFailures(machine());
    for (const { name } of masters.toReversed()) {
      await lab().service(name, 'kube-apiserver').signal('TERM');
      await sleep(stopGapMs);
    }
    // kube-proxy tries again after 30 s where our jump made its first try fail.
    await waitFor(async () => (await listServiceChains(machine())).length === 0, releaseLimitMs);
    const references = await listReferences(machine());
    await Promise.all(
      masters.map(async ({ name }) => {
        // It would go on serving open watches for a minute.
        await lab().service(name, 'kube-apiserver').stop('KILL');
        await lab().start(name, 'kube-apiserver');
      }),
    );
    await waitForApiservers(lab());
    await waitForBalance(lab());
    await table.examine('all apiservers stopped, and started', before, references);
  });

  test('kube-proxy --cleanup removes all of its chains, at the second time at the latest', async () => {
    await lab().service(node, 'kube-proxy').stop();
    // The first one removes its hook. The agent sees that, and releases the chain.
    const isReleased = async () => (await listReferences(machine())).length === 0;
    const release = () => waitFor(isReleased, releaseLimitMs);
    const runs = await cleanUpKubeProxy(lab(), node, lab().options.iptables, release);
    expect(runs).toBeLessThanOrEqual(2);
    expect(await listServiceChains(machine())).toEqual([]);
    const references = await listReferences(machine());
    await lab().start(node, 'kube-proxy');
    await waitForServices(lab(), [node]);
    await table.examine(`kube-proxy --cleanup, ${runs} times, and started`, 0, references);
    await waitForBalance(lab());
  });

  testModeChanges(lab, node, table, ['nftables', 'iptables']);
});
