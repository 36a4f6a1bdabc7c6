import { type EndpointHealth } from './endpoint-health.ts';

/** More ejections than this within the time, and it has to be good for longer: every ejection and return rewrites the rules. */
const maxEjections = 3;
const ejectionMemoryMs = 60_000;
const flappingWarmMs = 30_000;

/** Whether it fell out of use so often lately that it has to be good for longer. Pure. */
export function isFlapping(one: EndpointHealth, now: number): boolean {
  return recentEjections(one, now).length > maxEjections;
}

/** Whether it has been good for long enough for its past. Pure. */
export function hasWaited(one: EndpointHealth, now: number): boolean {
  return !isFlapping(one, now) || now - one.since >= flappingWarmMs;
}

/** When it fell out of use within the time that counts, oldest first. Pure. */
export function recentEjections({ ejections }: EndpointHealth, now: number): number[] {
  return ejections.filter((atMs) => now - atMs < ejectionMemoryMs);
}

/** Why one is warming: the news, and what it has to wait for. Pure. */
export function describeWarming(one: EndpointHealth, now: number, news: string): string {
  const count = recentEjections(one, now).length;
  return isFlapping(one, now)
    ? `${news}, but it failed ${count} times within ${ejectionMemoryMs / 1000} s. It becomes ready after ${flappingWarmMs / 1000} s without a failure`
    : news;
}
