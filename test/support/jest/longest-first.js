import TestSequencer from '@jest/test-sequencer';

/** Files that take far longer than others, by the end of their path: begun last they would be waited for alone. */
const long = [
  ...['netns/doctor.full.test.ts', 'netns/crash.full.test.ts', 'netns/forwarding.full.test.ts'],
  // Real nodes take as long as the next two.
  ...['scenarios/nodes.test.ts', 'control-plane/iptables.test.ts'],
  ...['control-plane/deaths.test.ts', 'control-plane/nftables.test.ts'],
];

/** Jest begins with what took longest the last time; on a fresh machine it knows of no last time. */
export default class LongestFirst extends TestSequencer {
  sort(tests) {
    const rank = ({ path }) => long.findIndex((end) => path.endsWith(end));
    const isLong = (test) => rank(test) >= 0;
    const sorted = super.sort(tests);
    const first = sorted.filter(isLong).sort((one, other) => rank(one) - rank(other));
    return [...first, ...sorted.filter((test) => !isLong(test))];
  }
}
