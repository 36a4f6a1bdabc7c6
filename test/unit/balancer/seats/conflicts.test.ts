import type { PlacedAddress } from '../../../../balancer/seats/plan.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { AddressConflicts } from '../../../../balancer/seats/conflicts.ts';
import { type Steps, testSteps, toChecks } from '../../steps.ts';
import { describe, test, expect } from '@jest/globals';

const mac = '02:00:00:00:00:01';
const place = (text: string): PlacedAddress => ({ address: { family: 'ipv4', text }, device: 'eth0' });

/** A network on which hosts have addresses. */
function startAsking() {
  const clock = new FakeClock();
  const macs = new Map<string, string>();
  const asked: string[][] = [];
  const told: string[] = [];
  const unannounced = new AddressConflicts(
    (questions) => {
      asked.push(questions.map(({ address }) => address));
      return Promise.resolve(macs);
    },
    clock,
    (address, mac) => told.push(`${address} ${mac ?? 'free'}`),
  );
  return { clock, macs, asked, told, unannounced };
}

const witnesses = { anchor: '10.0.9.10', shared: undefined as string | undefined };
const hold = (text: string) => ({ ...place(text), ...witnesses });

/** Looks twice a second for so long. */
const read = async (
  { clock, unannounced }: Pick<ReturnType<typeof startAsking>, 'clock' | 'unannounced'>,
  addresses: readonly string[],
  ms: number,
) => {
  for (let passed = 0; passed < ms; passed += 500) {
    await unannounced.ask([], addresses.map(hold));
    await clock.advance(500);
  }
};

/** `20` is 10.0.9.20, and `-` nobody. */
const toAddresses = (lasts: string) =>
  lasts.split(' ').flatMap((last) => (last > '0' ? [`10.0.9.${last}`] : []));

function createSteps(): Steps {
  const asking = startAsking();
  const { clock, macs, asked, told, unannounced } = asking;
  const may = (isNew: boolean) => (text: string) => {
    const [last = '', word] = text.split(' ');
    return [unannounced.mayHold(place(`10.0.9.${last}`), isNew), word === 'yes'] as const;
  };
  return {
    ask: (lasts) => unannounced.ask(toAddresses(lasts).map(place)),
    /** Asks for nothing new, twice a second for so long. */
    'ask-on': async (ms) => {
      for (let passed = 0; passed < Number(ms); passed += 500) {
        await clock.advance(500);
        await unannounced.ask([]);
      }
    },
    /** This node holds 10.0.9.20 for so long. */
    hold: (ms) => read(asking, ['10.0.9.20'], Number(ms)),
    wait: (ms) => clock.advance(Number(ms)),
    has: (lasts) => {
      for (const address of toAddresses(lasts)) macs.set(address, mac);
    },
    lose: macs.clear.bind(macs),
    ...toChecks({
      /** Whether it may hold one that is new, or any. */
      ...{ 'may-take': may(true), 'may-hold': may(false) },
      asked: (text) => [asked, text.split(', ').map(toAddresses)],
      'asked-more-than': (times) => [asked.length > Number(times), true],
      told: (words) => [told, words === '-' ? [] : words.split(', ').map((word) => `10.0.9.20 ${word}`)],
      used: (lasts) => [unannounced.used, toAddresses(lasts)],
    }),
  };
}

describe('an address that this node would be the first one to hold', () => {
  testSteps(createSteps, {
    'is held once it was asked for, and nobody has it':
      'may-take 20 no; ask 20; may-take 20 yes; ask 20; asked 20; told -',
    'is asked for again when it comes a second time': 'ask 20; ask; may-take 20 no; ask 20; asked 20, 20',
    // Nobody wants it any more: what is told has to end all the same.
    'that another host has is not held, and asked for until two answers in a row are missing':
      'has 20; ask 20; may-take 20 no; may-hold 20 no; used 20; lose; ask-on 65000; asked 20, 20, 20; ' +
      `told ${mac}, free; used -; may-hold 20 yes`,
    'that answers again after one silence stays in use':
      'has 20; ask 20; lose; wait 30000; ask; has 20; wait 30000; ask; lose; wait 30000; ask; has 20; wait 30000; ask; ' +
      `used 20; told ${mac}`,
  });

  test('waits for its turn where there are many', async () => {
    const { unannounced, asked } = startAsking();
    const many = Array.from({ length: 300 }, (_, at) =>
      place(`10.0.${9 + Math.floor(at / 200)}.${at % 200}`),
    );
    expect([await unannounced.ask(many), await unannounced.ask(many)]).toEqual([true, true]);
    expect(await unannounced.ask(many)).toBe(false);
    expect(asked.map(({ length }) => length)).toEqual([128, 128, 44]);
    expect(many.every((one) => unannounced.mayHold(one, true))).toBe(true);
  });
});

describe('an address that this node holds', () => {
  testSteps(createSteps, {
    'and another host has too, is found within a minute and three answers': `hold 90000; asked 20 10; has 20; hold 49000; told -; hold 10000; told ${mac}; used 20`,
    'is not given up for an answer, which may be of a node of ours whose anchor does not answer: the controller knows them all':
      'has 20; hold 120000; used 20; may-hold 20 yes',
    'stays after one odd answer, and after two':
      'hold 55000; has 20; hold 9000; lose; hold 55000; has 20; hold 19000; lose; hold 55000; has 20; hold 9000; lose; ' +
      'asked-more-than 4; told -',
    'stays where a node of ours answers: it has a witness, too': 'has 10 20; hold 300000; told -',
  });

  test('stays where many nodes of ours answer, each time another one first, and their ClusterIP is another by then', async () => {
    const asking = startAsking();
    witnesses.shared = '10.96.0.10';
    await read(asking, ['10.0.9.20'], 30_000);
    witnesses.shared = '10.96.0.1';
    for (let round = 0; round < 30; round += 1) {
      asking.macs.set('10.0.9.20', `02:00:00:00:00:0${round % 3}`);
      asking.macs.set('10.96.0.1', `02:00:00:00:00:0${(round + 1) % 3}`);
      await read(asking, ['10.0.9.20'], 10_000);
    }
    witnesses.shared = undefined;
    expect([asking.told, asking.asked.at(-1)]).toEqual([[], ['10.0.9.20', '10.0.9.10', '10.96.0.1']]);
  });

  test('is asked for in its turn: of 1,000 at most 64 in ten seconds, and each once in three minutes', async () => {
    const asking = startAsking();
    const many = Array.from({ length: 1000 }, (_, at) => `10.1.${Math.floor(at / 200)}.${at % 200}`);
    await read(asking, many, 60_000);
    expect(asking.asked).toEqual([]);
    await read(asking, many, 180_000);
    expect(asking.asked.length).toBeLessThanOrEqual(18);
    expect(Math.max(...asking.asked.map(({ length }) => length))).toBe(65);
    expect(new Set(asking.asked.flat()).size).toBe(1001);
  });
});
