import { masters, listApiservers, apiserverPort } from '../../support/network/layout.ts';
import { formatEndpoint } from '../../../lib/net.ts';
import { jest, describe, test, expect } from '@jest/globals';
import { deathAndReturn } from '../../support/lab/faults.ts';
import { useLab } from './with-lab.ts';
import { testSevenCases } from './seven-cases.ts';
import { vipnatCommand } from '../../../tools/lab/components/agent.ts';
import { testFaults } from './fault-table.ts';
import { waitForApiservers, waitForBalance } from '../../../tools/lab/control-plane/ready.ts';
import { testWithApi } from './api-followers.ts';
import { testNodeEvents } from './node-events.ts';
import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { waitUntil } from '../../../tools/lab/machines/service.ts';
import { runShell } from '../../../tools/lab/machines/machine.ts';

const names = masters.map(({ name }) => name);
const backends = listApiservers('ipv4').map(formatEndpoint);
const limitMs = 400_000;

jest.setTimeout(limitMs);

/** An agent has its rules a second after its start, on a machine that has the time. */
const reasonLimitMs = 30_000;

/** With a fair choice of three, 60 requests miss one apiserver once in 10 billion times. */
const enoughRequests = 60;

/** An apiserver's death and return: nobody hears of its lease here, so less is to be seen than elsewhere. */
const shortDeath = deathAndReturn.map((fault) => ({ ...fault, durationMs: 8000 }));

describe('a cluster without kube-proxy', () => {
  const lab = useLab({ proxyMode: 'none' });

  testSevenCases(lab, ['VIP']);

  test.each(names)(
    'on %s new connections go straight to the apiservers, as no kube-proxy is here, and check agrees',
    async (master) => {
      expect(await readPlan(lab(), master)).toMatchObject({
        kubeProxy: { mode: 'none' },
        vips: [{ mode: 'direct', reason: expect.stringMatching(/^this host runs no kube-proxy /), backends }],
        inSync: true,
      });
      expect(
        await lab()
          .machine(master)
          .run(vipnatCommand('check', '--vip', lab().vip)),
      ).toMatchObject({
        exitCode: 0,
        stdout: expect.stringContaining('is balanced, and its rules are in sync (direct, 3 apiservers)'),
      });
    },
  );

  testFaults(lab, shortDeath);

  test('all masters start anew with neither API nor --endpoints: the VIP is balanced over the apiservers that were saved', async () => {
    await Promise.all(names.map((name) => turnOff(lab(), name)));
    // The VIP is there before anything else, as when keepalived is the first to start.
    expect(await lab().listHolders()).toHaveLength(1);
    await Promise.all(names.map((name) => lab().start(name, 'vipnat', { agentArguments: [] })));
    await waitForReasons(lab(), /, so all 3 stay in use \(\/var\/lib\/vipnat\/endpoints\.json of /);

    await Promise.all(names.map((name) => lab().start(name, 'kube-apiserver')));
    await waitForApiservers(lab());
    await waitForReasons(lab(), /^this host runs no kube-proxy /);
    await waitForBalance(lab());
    const { errors, apiservers } = await lab()
      .seat('client')
      .request(lab().vip, apiserverPort, enoughRequests, 10_000);
    expect({ errors, apiservers: Object.keys(apiservers).sort() }).toEqual({
      errors: {},
      apiservers: names,
    });
  });

  describe('and agents that follow the API', () => {
    testWithApi(lab);
    testNodeEvents(lab);
  });
});

/** What `plan --format json` tells of a master. */
interface PrintedPlan {
  readonly vips: readonly { readonly reason: string; readonly backends: readonly string[] }[];
}

async function readPlan(lab: Lab, master: string): Promise<PrintedPlan> {
  const { stdout } = await lab.machine(master).run(vipnatCommand('plan', '--json', '--vip', lab.vip));
  return JSON.parse(stdout) as PrintedPlan;
}

/** Waits until every agent balances over all apiservers, for such a reason. */
async function waitForReasons(lab: Lab, reason: RegExp): Promise<void> {
  const findOther = async (master: string) => {
    const [vip] = (await readPlan(lab, master)).vips;
    const isSo = vip !== undefined && reason.test(vip.reason) && vip.backends.length === backends.length;
    return isSo ? null : `it plans ${JSON.stringify(vip)}`;
  };
  await Promise.all(
    names.map((name) =>
      waitUntil(() => findOther(name), {
        what: `the VIP is balanced over all apiservers, because ${String(reason)}`,
        service: lab.service(name, 'vipnat'),
        limitMs: reasonLimitMs,
      }),
    ),
  );
}

/** What a restart of the host takes away, but for etcd's data and the VIP. */
async function turnOff(lab: Lab, master: string): Promise<void> {
  await lab.service(master, 'vipnat').stop('KILL');
  await lab.service(master, 'kube-apiserver').stop('KILL');
  await runShell(lab.machine(master), 'nft flush ruleset');
}
