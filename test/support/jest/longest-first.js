import TestSequencer from '@jest/test-sequencer';

/** Files that take far longer than others, by the end of their path: begun last they would be waited for alone. */
const long = ['netns/crash.test.ts'];

/** Jest begins with what took longest the last time; on a fresh machine it knows of no last time. */
export default class LongestFirst extends TestSequencer {
  sort(tests) {
    const isLong = ({ path }) => long.some((end) => path.endsWith(end));
    const sorted = super.sort(tests);
    return [...sorted.filter(isLong), ...sorted.filter((test) => !isLong(test))];
  }
}
