import { test, expect } from '@jest/globals';
import { parseUsage } from '../../../../tools/bench/services/usage.ts';

test("a process's time is its own and that of the tools that it ran, whatever its name is", () => {
  const stat = '17 (a (b) c) S 1 17 17 0 -1 4194560 100 200 0 0 150 50 30 20 20 0 11 0 5 1 2';
  expect(parseUsage(`${stat}\nPss:              102400 kB\nVmHWM:\t  204800 kB\n`)).toEqual({
    ...{ processorMs: 2500, toolsMs: 500, megabytes: 100, peakMegabytes: 200 },
  });
});
