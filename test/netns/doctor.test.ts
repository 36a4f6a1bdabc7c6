import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { illnesses } from './doctor-faults.ts';
import { SickHost, type Told } from './sick-host.ts';
import { limitMs, waitUntil } from './vipnat.ts';

const quick = ['--capture', '0s'];

let host: SickHost;

beforeAll(async () => {
  host = await SickHost.create();
}, limitMs);

// Also when the set-up failed half-way.
afterAll(() => (host as SickHost | undefined)?.close(), limitMs);

const isTrouble = ({ level }: Told) => level === 'warn' || level === 'fail';

test(
  'a well host has no failures, and everything about it can be found out',
  async () => {
    let told: readonly Told[] = [];
    await waitUntil(
      async () => {
        told = (await host.examine(['--capture', '1.5s'])).filter(({ level }) => level !== 'ok');
        return told.length === 1;
      },
      () => `a well host is told ${JSON.stringify(told, null, 2)}`,
    );
    expect(told).toMatchObject([{ code: 'agent-not-running', level: 'warn' }]);
  },
  limitMs,
);

describe('each fault is named, and its remedy works', () => {
  test('there are enough of them', () => {
    const codes = illnesses.flatMap(({ faults }) => faults.map(({ code }) => code));
    expect(new Set(codes).size).toBeGreaterThanOrEqual(20);
  });

  afterEach(() => host.waitForVip(), limitMs);

  test.each(illnesses)(
    '$name',
    async ({ faults, args = quick }) => {
      const codes = faults.map(({ code }) => code);
      for (const { seed } of faults) await seed(host);
      let found: readonly Told[] = [];
      const isNamed = async (isMeant: (named: readonly string[]) => boolean) => {
        const told = await host.examine(args);
        found = told.filter((each) => codes.includes(each.code) && isTrouble(each));
        return isMeant([...new Set(found.map(({ code }) => code))]);
      };
      const describeFound = () => `told of ${codes.join(', ')}: ${JSON.stringify(found, null, 2)}`;
      await waitUntil(() => isNamed(({ length }) => length === codes.length), describeFound);
      for (const { remedy = [] } of found) await host.shell(remedy.join('\n'));
      await waitUntil(() => isNamed(({ length }) => length === 0), describeFound);
      for (const { after } of faults) await after?.(host);
    },
    limitMs,
  );
});
