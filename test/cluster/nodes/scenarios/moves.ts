import { chooseRounds, onlyLong } from '../../../support/jest/extent.ts';
import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { test, expect } from '@jest/globals';
import { waitForQuiet } from '../measure/quiet.ts';
import { tell } from '../../../support/lab/test-lab.ts';
import { expectSourceRoutes } from '../pods/source-routes.ts';
import { masters } from '../../../support/network/layout.ts';
import { takeStaticPod, putStaticPod } from '../pods/static-pod.ts';
import { waitForAgents, waitUntil } from '../../../../tools/lab/nodes/ready.ts';
import { type MoveReport, isLeader, moveVip } from '../measure/vip-move.ts';
import { Leases, controllerManager } from '../measure/leases.ts';
import { vipnatCommand } from '../../../../tools/lab/components/agent.ts';

const moves = chooseRounds(2, 20);
const movesAlone = chooseRounds(4);
const limitMs = 15 * 60_000;

/** Without vipnat the shortest hang is the controller-manager's, which gives up its lease after 10 s. With it, what waits longer than a scheduler beside it hangs. */
const pauseLimitMs = 5000;

/** Tests that the programs of a master go on when the VIP moves off it; and that these tests would see it if they did not. */
export function testMoves(lab: () => NodeLab): void {
  test(
    'off a living master: its kubelet, controller-manager and watches go on',
    async () => {
      await waitForQuiet(lab());
      const { reports, isLeaderSame } = await moveAround(lab(), moves);
      tell(
        `VIP moved off a living master ${moves} times, vipnat: longest pauses there: ${describePauses(reports)}`,
      );
      expect(reports.flatMap(({ endedWatches }) => endedWatches)).toEqual([]);
      for (const report of reports) {
        for (const pauseMs of listPauses(report)) expect(pauseMs).toBeLessThan(pauseLimitMs);
        const { before, after, sources } = report.connections;
        expect(after).toBe(before);
        expect(sources).toEqual([findAddress(lab(), report.from)]);
      }
      expect(isLeaderSame).toBe(true);
      await expectSourceRoutes(lab());
    },
    limitMs,
  );

  for (const name of onlyLong('off a living master with keepalived alone: its programs hang'))
    test(name, () => moveAlone(lab()), limitMs);
}

/** As before, without vipnat. */
async function moveAlone(lab: NodeLab): Promise<void> {
  try {
    for (const { name } of masters) await takeStaticPod(lab, name, 'vipnat');
    for (const { name } of masters) await cleanUp(lab, name);
    const { reports } = await moveAround(lab, movesAlone);
    tell(
      `VIP moved off a living master ${movesAlone} times, keepalived alone: longest pauses there: ${describePauses(reports)}`,
    );
    for (const report of reports) {
      for (const pauseMs of listPauses(report)) expect(pauseMs).toBeGreaterThan(pauseLimitMs);
      const { after, sources } = report.connections;
      expect({ after, sources }).toEqual({ after: 0, sources: [lab.vip] });
    }
  } finally {
    for (const { name } of masters) await putStaticPod(lab, name, 'vipnat');
  }
  await waitForAgents(lab);
}

/** Moves the VIP again and again: every other time off the controller-manager that leads. */
async function moveAround(
  lab: NodeLab,
  count: number,
): Promise<{ reports: MoveReport[]; isLeaderSame: boolean }> {
  const leases = await Leases.follow(lab);
  try {
    const reports: MoveReport[] = [];
    const leader = leases.getHolder(controllerManager);
    while (reports.length < count) {
      const [holder = ''] = await lab.listHolders();
      const others = masters.map(({ name }) => name).filter((name) => name !== holder);
      const to = others.find((name) => isLeader(leases, name)) ?? others[0] ?? '';
      const report = await moveVip(lab, to, leases);
      reports.push(report);
      tell(`move ${reports.length} of ${count}, ${report.from} → ${to}: ${describePauses([report])}`);
    }
    return { reports, isLeaderSame: leases.getHolder(controllerManager) === leader };
  } finally {
    leases.close();
  }
}

/** Takes everything of an agent away that was told to end, once it has ended. */
async function cleanUp(lab: NodeLab, master: string): Promise<void> {
  const machine = lab.machine(master);
  await waitUntil(`the agent on ${master} has ended`, async () => {
    const { exitCode } = await machine.run(['curl', '--silent', 'http://127.0.0.1:10268/healthz']);
    return exitCode === 0 ? 'it answers' : null;
  });
  const { exitCode, stderr } = await machine.run(vipnatCommand('cleanup'));
  if (exitCode !== 0) throw new Error(`cleanup on ${master}: ${stderr}`);
}

/** Of kubelet, controller-manager where the one that leads was there, and watches. */
function listPauses({ kubeletMs, controllerManagerMs, watchMs }: MoveReport): number[] {
  return [kubeletMs, ...(controllerManagerMs === null ? [] : [controllerManagerMs]), watchMs];
}

function findAddress(lab: NodeLab, master: string): string {
  return masters.find(({ name }) => name === master)?.addresses[lab.options.family] ?? '';
}

/** The longest ones, and how many connections went on. */
function describePauses(reports: readonly MoveReport[]): string {
  const longest = (figures: readonly (number | null)[]) => {
    const known = figures.filter((figure) => figure !== null);
    return known.length === 0 ? 'not seen' : `${Math.max(0, ...known).toFixed(0)} ms`;
  };
  const sum = (figures: readonly number[]) => figures.reduce((all, figure) => all + figure, 0);
  const pauses = [
    `kubelet ${longest(reports.map(({ kubeletMs }) => kubeletMs))}`,
    `controller-manager ${longest(reports.map(({ controllerManagerMs }) => controllerManagerMs))}`,
    `watches ${longest(reports.map(({ watchMs }) => watchMs))}`,
  ];
  const before = sum(reports.map(({ connections }) => connections.before));
  const after = sum(reports.map(({ connections }) => connections.after));
  return `${pauses.join(', ')}; ${after} of ${before} connections of kubelet and controller-manager went on`;
}
