import { expect, test } from '@jest/globals';

/** What a step may say, and what it does with the groups of the expression. What it returns is what is seen and what is expected. */
export type Verb = readonly [RegExp, (...words: string[]) => unknown];

/** Hours of a fake clock take some seconds on a busy machine. */
const limitMs = 60_000;

/** Plays a timeline: steps with semicolons between them, each as one of the verbs reads it. A step that fails is named. */
export async function playSteps(timeline: string, verbs: readonly Verb[]): Promise<void> {
  for (const step of timeline.split(/;\s*/).filter((text) => text !== '')) {
    const verb = verbs.find(([form]) => form.test(step));
    if (verb === undefined) throw new Error(`no verb reads "${step}"`);
    const [form, act] = verb;
    const answer = await endIn(step, act(...(form.exec(step) ?? []).slice(1)));
    if (!Array.isArray(answer)) continue;
    const [found, expected] = answer as unknown[];
    expect({ step, found }).toEqual({ step, found: expected });
  }
}

/** A step whose promise is kept by nobody fails with its own words, long before the test's limit. */
async function endIn(step: string, act: unknown): Promise<unknown> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    reject(new Error(`"${step}" does not end`));
  }, limitMs);
  return await Promise.race([act, promise]).finally(() => {
    clearTimeout(timer);
  });
}

/** A test for each title, which plays its timeline. */
export function testTimelines(
  titleToTimeline: Readonly<Record<string, string>>,
  play: (timeline: string) => Promise<unknown>,
): void {
  test.each(Object.entries(titleToTimeline))('%s', async (_title, timeline) => {
    await play(timeline);
  });
}

/** Titles and timelines for each of some values. */
export function forEach<Value>(
  values: readonly Value[],
  toRow: (value: Value) => readonly [string, string],
): Record<string, string> {
  return Object.fromEntries(values.map(toRow));
}
