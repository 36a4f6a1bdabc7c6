import { type ControlPlane, masterNames } from './control-plane.ts';
import type { Knowledge } from './knowledge.ts';
import { listRemedies } from './masters.ts';
import { WaitedTooLong } from '../../jest/waiting.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { timeNewService } from '../../lab/kube-proxy-state.ts';
import { apiserverPort } from '../../network/layout.ts';
import { vipnatCommand, runFolder } from '../../../../tools/lab/components/agent.ts';
import { dumpScript, listTraces } from '../../foreign/dump.ts';
import { judgeRemains } from '../world/judge.ts';
import { judgeEach } from './judge.ts';

/**
 * An endpoint comes within 10 s, kube-proxy's watch may hang for 45 s on an apiserver that was frozen, and after a write that
 * failed it waits 30 s.
 */
const knownLimitMs = 120_000;

/** Mends everything, and waits until every agent can know of every apiserver. */
export async function restoreAll(plane: ControlPlane, knowledge: Knowledge): Promise<void> {
  for (const master of plane.masters) for (const one of listRemedies(master)) await plane.mend(one);
  await plane.mendLeast();
  await plane.waitForUsable();
  // What a firewall flushed of its rules, kube-proxy itself finds out within an hour: jumps, and its table of nftables.
  for (const name of masterNames) await plane.restartProxy(name);
  const until = performance.now() + knownLimitMs;
  for (const name of masterNames) {
    while ((await knowledge.read(name)).length < masterNames.length) {
      if (performance.now() > until)
        throw new WaitedTooLong(
          `the agent on ${name} cannot know of every apiserver: kube-proxy or the API never lists them all`,
        );
      await sleep(300);
    }
  }
}

/** Complaints about kube-proxy on every master: a Service that is created now has to work. */
export function judgeServices({ lab }: ControlPlane): Promise<string[]> {
  return judgeEach(masterNames, async (name) =>
    (await timeNewService(lab, name)) === null ? [`${name}: kube-proxy does not write a new Service`] : [],
  );
}

/** Complaints about what is left of vipnat when its agents are stopped and `cleanup` ran on each master. */
export async function judgeCleanup(plane: ControlPlane): Promise<string[]> {
  const complaints = await judgeEach(masterNames, (name) => cleanUp(plane, name));
  // With nobody before them, a stranger's rules may lead the VIP's packets to nowhere.
  for (const firewall of plane.firewalls.values()) await firewall.restore();
  const [holder = ''] = await plane.lab.listHolders();
  const report = await plane.lab.seat('client', 'chaos').request(plane.lab.vip, apiserverPort, 8, 5000);
  const answered = Object.keys(report.apiservers).join(', ');
  if (answered === holder) return complaints;
  return [...complaints, `after cleanup ${answered || 'nobody'} answers at the VIP, which ${holder} holds`];
}

async function cleanUp({ lab }: ControlPlane, name: string): Promise<string[]> {
  const machine = lab.machine(name);
  await lab.service(name, 'vipnat').stop();
  const cleanup = await machine.run(vipnatCommand('cleanup'));
  const dump = await machine.run(['sh', '-c', dumpScript]);
  const sockets = await machine.run(['find', runFolder, '-type', 's']);
  return judgeRemains(name, { cleanup, traces: listTraces(dump.stdout), sockets: sockets.stdout });
}
