import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { constants, getPriority, setPriority } from 'node:os';
import { runTool } from '../../../../../lib/kernel/tools/exec.ts';

/** A shell that says its niceness once it has run for a while. */
const niceness = { tool: 'sh', arguments: ['-c', 'sleep 0.2; nice'], limitMs: 10_000 };

describe('a tool that is run by a process of higher priority', () => {
  const before = getPriority();
  let isAllowed = true;

  beforeEach(() => {
    try {
      setPriority(constants.priority.PRIORITY_ABOVE_NORMAL);
    } catch {
      // Only root may. What is tested then is that nothing fails.
      isAllowed = false;
    }
  });

  afterEach(() => {
    if (isAllowed) setPriority(before);
  });

  test('has that too, as a write is urgent', async () => {
    expect(Number(await runTool(niceness))).toBe(getPriority());
  });

  test('has the ordinary one where it only reads', async () => {
    expect(Number(await runTool({ ...niceness, isPatient: true }))).toBe(isAllowed ? 0 : before);
  });
});
