import { jest, beforeAll, afterAll } from '@jest/globals';
import { labLimitMs } from '../../../support/lab/limits.ts';
import type { LabOptions } from '../../../../tools/lab/settings/options.ts';
import type { RaiseOptions } from '../../../../tools/lab/control-plane/raise.ts';
import { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { raiseTestNodes, raiseTestBareNodes, tell } from '../../../support/lab/test-lab.ts';

// A test file that needs longer says so after it.
jest.setTimeout(labLimitMs);

/** Components and images that nobody built yet take minutes. */
const upLimitMs = 20 * 60_000;

/**
 * A cluster of real nodes for all tests of a file, up before the first one and gone after the last. Answers how to get at it.
 * Whoever writes tests sets LAB_NAME: the lab of that name, which is up, is taken as it is and stays.
 */
export function useNodes(options: Partial<LabOptions> = {}, how: RaiseOptions = {}): () => NodeLab {
  return useLab(() => raiseTestNodes(options, how));
}

/** The same with masters that have no cluster yet. */
export function useBareNodes(): () => NodeLab {
  return useLab(raiseTestBareNodes);
}

function useLab(raise: () => Promise<NodeLab>): () => NodeLab {
  const lent = process.env['LAB_NAME'];
  let lab: NodeLab | undefined;
  beforeAll(async () => {
    lab = lent === undefined ? await raise() : (NodeLab.find(lent) ?? undefined);
  }, upLimitMs);
  afterAll(async () => {
    lab?.closeSeats();
    if (lent !== undefined) return;
    await lab?.end();
    if (lab !== undefined) tell(`the logs of its nodes are in ${lab.folder} until the next run`);
  });
  return () => {
    if (lab === undefined) throw new Error('the nodes are not up');
    return lab;
  };
}
