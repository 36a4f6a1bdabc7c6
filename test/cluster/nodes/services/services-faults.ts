import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import {
  waitForAddress,
  findHolder,
  createWeb,
  removeWeb,
  askWeb,
} from '../../../../tools/lab/services/web.ts';
import { test, expect } from '@jest/globals';
import { connectWhile, type AddressLoad, type AddressReport } from './services-load.ts';
import { waitForServices } from '../../../../tools/lab/services/install.ts';
import { runShell } from '../../../../tools/lab/machines/machine.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';
import { bootAgain } from './power-cycle.ts';
import { findOneHolder } from './services-cut-off.ts';

/** What takes longer has lost its SYN: otherwise a second one would hide until when they failed. */
const failedMs = 1000;

const inNamespace = ['--namespace', 'vipnat-system'];

/** Tests what clients of the Service `web` see when parts of what serves it fail. */
export function testServicesFaults(lab: () => NodeLab): void {
  const findAddress = () => waitForAddress(lab(), 'web');

  const findHolderNow = async () => await findOneHolder(lab(), await findAddress());

  test('the pod on the holder is deleted: another node takes the address, and no connection fails', async () => {
    const holder = await findHolderNow();
    const load = { address: await findAddress(), what: "balancer's pod on the holder deleted" };
    const report = await connectWhile(lab(), load, async () => {
      await lab().ask(['delete', 'pod', await findPod(lab(), holder), ...inNamespace]);
      await waitForServices(lab());
    });
    expect(report.failed).toEqual([]);
    expect(await findHolderNow()).not.toBe(holder);
  });

  test('keepalived on the holder is killed: one node has the address again, and only handshakes under way may end', async () => {
    const holder = await findHolderNow();
    const load = { address: await findAddress(), what: 'keepalived on the holder killed' };
    const report = await connectWhile(lab(), load, async () => {
      await runShell(lab().machine(holder), "pkill -KILL --full 'keepalived .*/run/vipnat-lb/'");
      await waitForRestarts(lab(), holder, 'keepalived', 1);
      await waitUntil('one node has the address', async () =>
        (await findHolder(lab(), load.address)) === null ? 'none or several have' : null,
      );
    });
    // The address moves twice at most: away, and back. The node that gets it knows nothing of a handshake that is under way.
    const resets = report.failed.filter((text) => text.startsWith('ECONNRESET'));
    expect(resets.length).toBeLessThanOrEqual(2);
    expect(report.failed.filter((text) => !resets.includes(text))).toEqual([]);
  });

  test('both controllers are killed: what is there stays, and a new Service gets an address soon', async () => {
    const load = { address: await findAddress(), what: 'both controllers killed' };
    const report = await connectWhile(lab(), load, async () => {
      const pods = ['--selector', 'app.kubernetes.io/name=vipnat-controller', '--grace-period=0', '--force'];
      await lab().ask(['delete', 'pods', ...pods, ...inNamespace]);
      await createWeb(lab(), { name: 'late', replicas: 1 });
      await waitForAddress(lab(), 'late');
    });
    expect(report.failed).toEqual([]);
    await removeWeb(lab(), 'late');
  });

  test('the holder loses its power: once another node has the address no connection fails, and the return moves nothing', async () => {
    const holder = await findHolderNow();
    const load = { address: await findAddress(), what: 'holder without power', stricken: holder };
    const { lost, takenAt } = await loseHolder(lab(), { ...load, limitMs: failedMs }, holder);
    expect(lost.failed).not.toContain('it never became quiet');
    // Those that were under way, or on the way to a neighbour that has gone.
    expect(lost.lastFailedAt).toBeLessThan(takenAt + failedMs);
    const next = await findHolderNow();
    const back = await connectWhile(lab(), { ...load, what: 'its return' }, () => bootAgain(lab(), holder));
    expect(back.failed).toEqual([]);
    expect(await findHolderNow()).toBe(next);
    expect(await askWeb(lab(), holder, load.address, 10)).toMatchObject({ failed: 0 });
  });
}

/**
 * The holder of an address loses its power; it is on again when nobody takes the address over. `takenAt` is when another node had it, in
 * milliseconds since the epoch.
 */
async function loseHolder(
  lab: NodeLab,
  load: AddressLoad,
  holder: string,
): Promise<{ lost: AddressReport; takenAt: number }> {
  let takenAt = 0;
  try {
    const lost = await connectWhile(lab, load, async () => {
      await lab.powerOff(holder);
      await waitUntil('another node has the address', async () =>
        (await findHolder(lab, load.address)) === null ? 'none or several have' : null,
      );
      takenAt = performance.timeOrigin + performance.now();
    });
    return { lost, takenAt };
  } catch (error) {
    await bootAgain(lab, holder);
    throw error;
  }
}

async function findPod(lab: NodeLab, node: string): Promise<string> {
  const selector = 'app.kubernetes.io/name=vipnat-balancer';
  const words = ['--selector', selector, '--field-selector', `spec.nodeName=${node}`, ...inNamespace];
  return await lab.ask(['get', 'pods', ...words, '--output', 'jsonpath={.items[0].metadata.name}']);
}

/** Waits until a container of a node's pod has been started again so many times, and runs. */
async function waitForRestarts(lab: NodeLab, node: string, container: string, count: number): Promise<void> {
  const pod = await findPod(lab, node);
  await waitUntil(`${container} on ${node} runs again`, async () => {
    const path = `jsonpath={range .status.containerStatuses[?(@.name=="${container}")]}{.restartCount} {.state}{end}`;
    const { stdout } = await lab.kubectl(['get', 'pod', pod, ...inNamespace, '--output', path]);
    const [restarts = '', ...state] = stdout.split(' ');
    return Number(restarts) >= count && state.join(' ').includes('running') ? null : stdout;
  });
}
