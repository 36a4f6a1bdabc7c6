import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { constants, getPriority, setPriority } from 'node:os';
import { runTool } from '../../../../../lib/kernel/tools/exec.ts';

/** A shell that says its niceness at its end. */
const say = (script: string) => ({ tool: 'sh', arguments: ['-c', `${script}; nice`], limitMs: 60_000 });

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
    expect(Number(await runTool(say('sleep 0.2')))).toBe(getPriority());
  });

  test('has the ordinary one where it only reads', async () => {
    const expected = isAllowed ? 0 : before;
    // It runs before its niceness is another one.
    const patient = say(`until [ "$(nice)" = ${expected} ]; do sleep 0.05; done`);
    expect(Number(await runTool({ ...patient, isPatient: true }))).toBe(expected);
  });
});
