import { expect, test } from '@jest/globals';

/** What steps do, by their first words; each gets the rest of its step. */
export type Steps = Readonly<Record<string, (detail: string) => unknown>>;

/** Plays a timeline, one step after the other: `silent w2; wait 800; out w2`. */
export async function playSteps(steps: Steps, timeline: string): Promise<void> {
  for (const step of timeline.split('; ')) {
    const [verb = '', ...detail] = step.split(' ');
    const play = steps[verb];
    if (play === undefined) throw new TypeError(`no such step: ${step}`);
    await play(detail.join(' '));
  }
}

/** Steps that check: each returns what is seen and what is expected. */
export function toChecks(
  checks: Readonly<Record<string, (detail: string) => readonly [found: unknown, expected: unknown]>>,
): Steps {
  const toStep = (check: (typeof checks)[string]) => (detail: string) => {
    const [found, expected] = check(detail);
    expect(found).toEqual(expected);
  };
  return Object.fromEntries(Object.entries(checks).map(([verb, check]) => [verb, toStep(check)]));
}

export function testSteps(create: () => Steps, titleToTimeline: Readonly<Record<string, string>>): void {
  test.each(Object.entries(titleToTimeline))('%s', async (_, timeline) => {
    await playSteps(create(), timeline);
  });
}
