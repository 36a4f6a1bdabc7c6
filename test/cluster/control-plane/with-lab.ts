import { jest, beforeAll, afterAll } from '@jest/globals';
import { labLimitMs } from '../../support/lab/limits.ts';
import type { LabOptions } from '../../../tools/lab/settings/options.ts';
import type { RaiseOptions } from '../../../tools/lab/control-plane/raise.ts';
import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { raiseTestLab, tell } from '../../support/lab/test-lab.ts';

// A test file that needs longer says so after it.
jest.setTimeout(labLimitMs);

/** Components that nobody built yet take minutes. */
const upLimitMs = 15 * 60_000;

/** A lab for all tests of a file, up before the first one and gone after the last. Answers how to get at it. */
export function useLab(options: Partial<LabOptions>, how: RaiseOptions = {}): () => Lab {
  let lab: Lab | undefined;
  beforeAll(async () => {
    lab = await raiseTestLab(options, how);
  }, upLimitMs);
  afterAll(async () => {
    await lab?.end();
    if (lab !== undefined) tell(`the logs of its components are in ${lab.folder} until the next run`);
  });
  return () => {
    if (lab === undefined) throw new Error('the lab is not up');
    return lab;
  };
}
