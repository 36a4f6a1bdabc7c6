import { jest, describe, expect, test, afterAll } from '@jest/globals';
import { useLab } from './with-lab.ts';
import { measureOutage } from './outage.ts';
import { formatDuration, formatTable } from './table.ts';
import { waitForBalance, waitForApiservers, waitForHolder } from '../../../tools/lab/control-plane/ready.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { breakPath, mendPath } from '../../../tools/lab/control-plane/faults.ts';
import { nameLab } from '../../support/lab/test-lab.ts';
import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { vipnatCommand } from '../../../tools/lab/components/agent.ts';
import { waitUntil } from '../../../tools/lab/machines/service.ts';
import { masters } from '../../support/network/layout.ts';

const limitMs = 400_000;

jest.setTimeout(limitMs);

/** Far more than on a quiet machine: with these adverts a backup takes the VIP after a second. */
const moveLimitMs = 15_000;

/** With room for such a move, and for the quiet after it. */
const measuredMs = moveLimitMs + 5000;

describe('keepalived as vipnat would have it, with adverts of 300 ms', () => {
  const lab = useLab({ proxyMode: 'none', keepalivedArguments: ['--advert', '300ms'] });
  const rows: (string | number)[][] = [['what happens to the holder', 'connects', 'failed', 'for']];

  /** Measures from before something happens to the holder until the VIP has stayed somewhere for a while. */
  async function measure(what: string, stricken: string, happen: () => Promise<void>): Promise<void> {
    const outage = await measureOutage(lab(), { durationMs: measuredMs, stricken }, happen);
    rows.push([what, outage.sent, outage.failed, formatDuration(outage.windowMs)]);
    expect(outage.quietMs).toBeGreaterThan(2000);
  }

  test('the VIP stays where an apiserver dies', async () => {
    const holder = await findHolder(lab());
    await measure('its apiserver killed -9', holder, async () => {
      await lab().service(holder, 'kube-apiserver').stop('KILL');
      await waitForBalance(lab(), 2);
      await sleep(2000);
    });
    expect(await lab().listHolders()).toEqual([holder]);
    await lab().start(holder, 'kube-apiserver');
    await waitForApiservers(lab());
    await waitForBalance(lab());
  });

  test('the VIP leaves a node that can serve neither balanced nor by itself, and stays away when that is mended', async () => {
    const holder = await findHolder(lab());
    await measure('its apiserver killed -9, its way to the others barred', holder, async () => {
      await breakPath(lab(), holder);
      await waitForAnotherHolder(lab(), holder);
    });
    expect(await readVrrpState(lab(), holder)).toBe('FAULT');
    const next = await findHolder(lab());
    await mendPath(lab(), holder);
    await waitForApiservers(lab());
    await waitForBalance(lab());
    expect(await lab().listHolders()).toEqual([next]);
  });

  afterAll(() => {
    const title = 'What a client outside sees, at 500 new connections per second';
    process.stderr.write(formatTable(`${title} · ${nameLab(lab())}`, rows));
  });
});

/** What `vipnat status` says of keepalived on a master. */
async function readVrrpState(lab: Lab, master: string): Promise<string | undefined> {
  const { stdout } = await lab.machine(master).run(vipnatCommand('status', '--json', '--vip', lab.vip));
  const answer = JSON.parse(stdout) as { vips: readonly { keepalived: { state: string } }[] };
  return answer.vips[0]?.keepalived.state;
}

async function findHolder(lab: Lab): Promise<string> {
  await waitForHolder(lab);
  return (await lab.listHolders())[0] ?? '';
}

/** One without a network holds it too, for nobody. */
async function waitForAnotherHolder(lab: Lab, than: string): Promise<void> {
  const findObstacle = async () => {
    const holders = await lab.listHolders();
    return holders.some((holder) => holder !== than) ? null : `the holders are: ${holders.join(', ')}`;
  };
  await waitUntil(findObstacle, {
    what: 'another master holds the VIP',
    service: lab.service(masters.find(({ name }) => name !== than)?.name ?? '', 'keepalived'),
    limitMs: moveLimitMs,
  });
}
