import { useCertificates, eventually, routeTo } from '../../../support/api/api-world.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { type RecordingLogger, createRecordingLogger } from '../../../support/fakes/logger.ts';
import { KubeApi } from '../../../support/kube-api/kube-api.ts';
import { EventWriter } from '../../../../lib/telemetry/events.ts';
import { beforeEach, afterEach, expect, describe, test } from '@jest/globals';

const certificates = useCertificates();

let clock: FakeClock;
let logger: RecordingLogger;
let servers: KubeApi[];
let writer: EventWriter;

/** Two apiservers, this node's own first, and a writer whose kubeconfig names the VIP. */
beforeEach(async () => {
  [clock, logger] = [new FakeClock(), createRecordingLogger()];
  const pair = certificates().serving('m1');
  const first = await KubeApi.start({ pair, host: '127.0.0.1' });
  servers = [first, await KubeApi.start({ pair, host: '127.0.0.2', port: first.port })];
  const places = ['127.0.0.1', '127.0.0.2'].map((host) => `${host}:${first.port}`);
  const route = routeTo(certificates().authority, places);
  writer = new EventWriter({ route, clock, random: () => 0, logger, node: 'm1' });
});

afterEach(async () => {
  await writer.stop();
  expect(servers.flatMap(({ breaches }) => breaches)).toEqual([]);
  await Promise.all(servers.map((server) => server.stop()));
  expect(clock.pending).toBe(0);
});

/** What an apiserver has: `REASON note`, and how often. */
const told = (index = 0) =>
  servers[index]?.events.all.map(({ reason, note, series }) => `${reason} ${note} x${series?.count ?? 1}`) ??
  [];

const linesOf = (...levels: string[]) =>
  logger.lines.filter(({ level }) => levels.includes(level)).map(({ message }) => message);

/** Waits until so many tries have failed, and lets the pause after the last one pass. */
async function passPause(failures: number): Promise<void> {
  await eventually(`${failures} tries have failed`, () => linesOf('warn', 'debug').length === failures);
  const [, ms] = /tries again in (\d+) ms/.exec(linesOf('warn', 'debug').at(-1) ?? '') ?? [];
  await clock.advance(Number(ms ?? 60_000));
}

function turn(change: (server: KubeApi) => void): void {
  for (const server of servers) change(server);
}

describe('the API that answers', () => {
  test('is told of a repeat as a series of the first', async () => {
    writer.record('ApiserverDead', 'm2 is dead');
    await eventually('it is told', () => told().length === 1);
    await clock.advance(3000);
    writer.record('ApiserverDead', 'm2 is dead');
    await eventually('its repeat is told', () => told().join() === 'ApiserverDead m2 is dead x2');
    expect(servers[0]?.events.all[0]?.series).toEqual({
      count: 2,
      lastObservedTime: '2026-01-01T00:00:03.000000Z',
    });
    expect(logger.lines).toEqual([]);
  });

  test('has forgotten the first: the repeat is an event that tells of all', async () => {
    writer.record('ApiserverDead', 'm2 is dead');
    await eventually('it is told', () => told().length === 1);
    servers[0]?.events.forget();
    writer.record('ApiserverDead', 'm2 is dead');
    await eventually('it is told anew', () => told().join() === 'ApiserverDead m2 is dead x2');
  });
});

describe('the API that is away', () => {
  test('is told later of what happened meanwhile, with its time, by whoever answers first', async () => {
    turn((server) => (server.manner = 'failing'));
    writer.record('NotBalanced', 'no apiserver is known');
    await passPause(1);
    await eventually('both were asked', () => linesOf('debug').length === 2);
    writer.record('ApiserverDead', 'm2 is dead');
    writer.record('ApiserverDead', 'm2 is dead');
    const [, second] = servers;
    if (second !== undefined) second.manner = 'well';
    await passPause(2);
    await passPause(3);
    await eventually('all is told', () => told(1).length === 2);
    expect(told(1)).toEqual(['NotBalanced no apiserver is known x1', 'ApiserverDead m2 is dead x2']);
    expect(second?.events.all[0]).toMatchObject({ eventTime: '2026-01-01T00:00:00.000000Z' });
    expect(linesOf('info', 'warn', 'error')).toEqual([]);
    expect(linesOf('debug')[0]).toMatch(
      /^an event waits: writing an event at .* is answered with 500: .*\. vipnat tries again in 250 ms$/,
    );
  });

  test.each(['page', 'another kind', 'unauthorized'] as const)('(%s) is none to answer', async (manner) => {
    turn((server) => (server.manner = manner));
    writer.record('ApiserverDead', 'm2 is dead');
    await passPause(1);
    await eventually('it is tried again', () => linesOf('debug').length === 2);
    turn((server) => (server.manner = 'well'));
    await passPause(2);
    await eventually('it is told', () => [...told(0), ...told(1)].length === 1);
    expect(linesOf('info', 'warn', 'error')).toEqual([]);
  });

  test('does not hold up an agent that ends', async () => {
    turn((server) => (server.manner = 'hanging'));
    writer.record('ApiserverDead', 'm2 is dead');
    await eventually('it is asked', () => servers[0]?.questions.length === 1);
    let hasEnded = false;
    const ending = writer.stop().then(() => (hasEnded = true));
    await clock.advance(499);
    expect(hasEnded).toBe(false);
    await clock.advance(1);
    await ending;
    writer.record('ApiserverDead', 'm3 is dead');
    expect([servers[0]?.questions.length, clock.pending]).toEqual([1, 0]);
  });
});

test('an agent that ends waits for the event under way', async () => {
  writer.record('CannotServe', 'this node can serve no more');
  await writer.stop();
  expect(told()).toHaveLength(1);
});

test('a missing right is said once, with the rule, and that it is there again', async () => {
  turn((server) => (server.forbidsEvents = true));
  writer.record('ApiserverDead', 'm2 is dead');
  await passPause(1);
  await passPause(2);
  await eventually('it is tried again', () => linesOf('warn', 'debug').length === 3);
  turn((server) => (server.forbidsEvents = false));
  await passPause(3);
  // The server has it before the writer has the answer.
  await eventually('it is said', () => linesOf('info').length > 0);
  expect(told()).toHaveLength(1);
  expect(linesOf('warn')).toEqual([
    expect.stringMatching(
      /^vipnat cannot write events: writing an event at \S+ is answered with 403: events\.events\.k8s\.io is forbidden: .*. Allow its credentials to create and patch events\.events\.k8s\.io in the namespace default$/,
    ),
  ]);
  expect(linesOf('info')).toEqual(['vipnat writes events again']);
});

test('what the API will never take is left out, and the next is told', async () => {
  writer.record('ApiserverDead', 'm2 is dead');
  await eventually('it is told', () => told().length === 1);
  turn(({ events }) => (events.deniedNote = 'm3 is dead'));
  writer.record('ApiserverDead', 'm3 is dead');
  writer.record('ApiserverDead', 'm4 is dead');
  await eventually('the next is told', () => told().length === 2);
  expect(told()[1]).toBe('ApiserverDead m4 is dead x1');
  expect(linesOf('debug')).toEqual([
    expect.stringMatching(/^vipnat left out an event: .* is answered with 422: .* denied$/),
  ]);
});

test('an event of a namespace that is being deleted is left out at once: no right would help', async () => {
  turn(({ events }) => (events.endingNote = 'm3 is dead'));
  writer.record('ApiserverDead', 'm3 is dead');
  writer.record('ApiserverDead', 'm4 is dead');
  await eventually('the next is told', () => told().length === 1);
  expect(linesOf('warn')).toEqual([]);
  expect(linesOf('debug')).toEqual([expect.stringMatching(/ is answered with 403: .* is being terminated$/)]);
});

test('what is left out is counted', async () => {
  for (let index = 0; index < 30; index += 1) writer.record('ApiserverDead', `m${index} is dead`);
  await eventually('25 are told', () => told().length === 25);
  expect(linesOf('debug').at(-1)).toBe('vipnat has left out 5 events so far: too many, or too old');
});
