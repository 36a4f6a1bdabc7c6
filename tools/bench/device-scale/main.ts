/**
 * What many Services cost a simulated pair of Alteon, in requests of 50 ms each. Time is counted, and not waited for. Run by
 * `scripts/bench device-scale`; prints its table, and writes nothing.
 */
import { parseArgs } from 'node:util';
import { AlteonScale, type Cost } from '../../../test/support/devices/alteon-scale.ts';

const { values } = parseArgs({
  options: {
    services: { type: 'string', default: '500' },
    pods: { type: 'string', default: '20' },
  },
});
const [services, pods] = [Number(values.services), Number(values.pods)];
const callsPerSecond = 20;

const scale = await AlteonScale.start({ services, pods, callMs: 50, callsPerSecond });
try {
  process.stdout.write(
    `${services} Services with ${pods} pods each, ${callsPerSecond} requests a second at most\n\n`,
  );
  process.stdout.write('| what | requests | those that write | time | requests for each endpoint |\n');
  process.stdout.write('| --- | ---: | ---: | ---: | ---: |\n');
  print('all Services come', services * pods, await scale.measure(() => undefined));
  print(
    'another process leads, and nothing is otherwise',
    0,
    await scale.measure(() => scale.world.restart()),
  );
  for (const [round, count] of [1, 10, 50, services].entries()) {
    const cost = await scale.measure(() => {
      scale.replacePods(count, round + 1);
    });
    print(`${count} Services lose a pod and get another`, 2 * count, cost);
  }
  process.stdout.write(`\nMost requests in a second: ${findMost(scale.callMs)}\n`);
} finally {
  await scale.stop();
}

function print(what: string, endpoints: number, { calls, writes, ms }: Cost): void {
  const each = endpoints === 0 ? '–' : (calls / endpoints).toFixed(1);
  process.stdout.write(`| ${what} | ${calls} | ${writes} | ${(ms / 1000).toFixed(1)} s | ${each} |\n`);
}

function findMost(times: readonly number[]): number {
  let [most, first] = [0, 0];
  for (const [at, ms] of times.entries()) {
    while (ms - (times[first] ?? ms) >= 1000) first += 1;
    most = Math.max(most, at - first + 1);
  }
  return most;
}
