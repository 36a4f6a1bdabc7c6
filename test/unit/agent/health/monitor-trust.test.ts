import { makeFolder } from '../../../support/network/own-folder.ts';
import { join } from 'node:path';
import { LocalApiservers, type Answering, makeIdentity, makeFutureIdentity } from './local-apiservers.ts';
import { afterEach, test, expect } from '@jest/globals';
import { HealthMonitor } from '../../../../agent/health/monitor.ts';
import { createApiserver } from '../../../../agent/health/connection.ts';
import { systemClock } from '../../../../lib/clock.ts';
import { findAuthority } from '../../../../lib/files.ts';
import { formatEndpoint, type Endpoint } from '../../../../lib/net.ts';
import { waitUntil, sleep, WaitedTooLong } from '../../../support/jest/waiting.ts';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';

const folder = makeFolder('trust');
const authority = join(folder, 'ca.crt');

const apiservers = new LocalApiservers();

afterEach(() => {
  apiservers.close();
});

/** Questions to one apiserver, one a second, within which a verdict follows its cause. */
const promptly = 5;

/** Three apiservers, and an agent's monitor that verifies them with `authority`. */
class World {
  readonly three: readonly Answering[];
  readonly monitor: HealthMonitor;
  /** Changes of state, as `index state`. */
  readonly changes: string[] = [];

  private constructor(three: readonly Answering[]) {
    this.three = three;
    this.monitor = new HealthMonitor({
      apiserver: createApiserver({ clock: systemClock, findAuthority: () => findAuthority(authority) }),
      clock: systemClock,
      // However late an answer is here, it is one.
      settings: { intervalMs: 250, timeoutMs: 60_000 },
      onChange: (before, { endpoint, state }) => {
        if (state !== before.state)
          this.changes.push(`${three.findIndex((one) => one.endpoint.port === endpoint.port)} ${state}`);
      },
    });
    this.monitor.watch({ endpoints: three.map(({ endpoint }) => endpoint), localAddresses: new Set() });
    apiservers.atEnd(() => {
      this.monitor.stop();
    });
  }

  static async start(identity: Parameters<LocalApiservers['answer']>[0]): Promise<World> {
    return new World(await Promise.all([0, 1, 2].map(() => apiservers.answer(identity, 200))));
  }

  get all(): HealthMonitor['all'] {
    return this.three.map(({ endpoint }) => {
      const found = this.monitor.all.find((one) => formatEndpoint(one.endpoint) === formatEndpoint(endpoint));
      if (found === undefined) throw new Error(`${formatEndpoint(endpoint)} is not watched`);
      return found;
    });
  }

  get states(): string[] {
    return this.all.map(({ state }) => state);
  }

  async wait(isThere: () => boolean): Promise<void> {
    await waitUntil(
      () => Promise.resolve(isThere()),
      () => JSON.stringify(this.all),
    );
  }

  /** Waits until one was asked so often, or the states are these; answers the states. */
  async settle(index: number, states: readonly string[], questions = promptly): Promise<string[]> {
    const last = (this.three[index]?.questions ?? 0) + questions;
    await this.wait(
      () => (this.three[index]?.questions ?? 0) >= last || this.states.join() === states.join(),
    );
    return this.states;
  }
}

test('a rotation of the CA: who serves with the new one is in use a few questions after the CA is here, and who serves with the old one is out when that goes', async () => {
  const [old, fresh] = [makeIdentity(folder, 'old'), makeIdentity(folder, 'fresh')];
  const [oldCa, freshCa] = [old, fresh].map(({ certificate }) => readFileSync(certificate, 'utf8'));
  writeFileSync(authority, oldCa ?? '');
  const world = await World.start(old);
  const [first, second, third] = world.three;
  if (first === undefined || second === undefined || third === undefined) throw new Error('there are three');
  await world.wait(() => world.all.every(({ history }) => history.readyAnswers > 0));

  await apiservers.restart(first, fresh);
  await world.wait(() => world.states[0] === 'draining');
  expect(world.all[0]?.reason).toMatch(/^its certificate is not signed by the CA in /);
  writeFileSync(authority, `${oldCa}${freshCa}`);
  expect(await world.settle(0, ['ready', 'ready', 'ready'])).toEqual(['ready', 'ready', 'ready']);

  // A connection that was verified by what the file had before proves nothing now.
  writeFileSync(authority, freshCa ?? '');
  expect(await world.settle(1, ['ready', 'draining', 'draining'])).toEqual(['ready', 'draining', 'draining']);
  for (const one of [second, third]) await apiservers.restart(one, fresh);
  expect(await world.settle(1, ['ready', 'ready', 'ready'], 3 * promptly)).toEqual([
    'ready',
    'ready',
    'ready',
  ]);
});

test('a clock that was late at the start: certificates of the future count as soon as it is right, and later restarts cost only who restarts', async () => {
  const identity = makeFutureIdentity(folder, 'future', new Date(Date.now() + 4000));
  writeFileSync(authority, readFileSync(identity.certificate));
  const world = await World.start(identity);
  const [first] = world.three;
  if (first === undefined) throw new Error('there are three');
  await world.wait(
    () => world.all.every(({ unconfirmedFailure }) => unconfirmedFailure !== null) || isGood(world),
  );
  await world.wait(() => isGood(world));
  const before = world.changes.length;
  await apiservers.restart(first, identity);
  const asked = first.questions;
  await world.wait(() => first.questions >= asked + promptly);
  expect(world.states).toEqual(['ready', 'ready', 'ready']);
  expect(world.changes.slice(before).filter((change) => !change.startsWith('0 '))).toEqual([]);
  expect(world.changes.slice(0, before)).toEqual([]);
});

function isGood({ all }: World): boolean {
  return all.every(
    ({ history, unconfirmedFailure }) => history.readyAnswers > 0 && unconfirmedFailure === null,
  );
}

const own = makeIdentity(folder, 'tls');

const program = fileURLToPath(new URL('../../../support/network/apiserver.ts', import.meta.url));

/** After five seconds its connections would be lost. */
const longestStopMs = 4500;

test('an apiserver that stands still for 1.5 s with a full accept queue gets no new connections, and keeps its open ones', async () => {
  const witness = await apiservers.answer(own, 200);
  const stopped: Endpoint = { ...witness.endpoint, address: '127.0.0.2' };
  const { key, certificate } = own;
  const child = spawn(
    process.execPath,
    [program, 'm2', String(stopped.port), certificate, key, stopped.address],
    { env: { ...process.env, BACKLOG: '8' }, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  apiservers.atEnd(() => {
    child.kill('SIGKILL');
  });
  await once(child.stdout, 'data');
  const seen = new Set<string>();
  const monitor = new HealthMonitor({
    apiserver: createApiserver({ clock: systemClock, findAuthority: () => null }),
    clock: systemClock,
    settings: { intervalMs: 250, timeoutMs: 250 },
    onChange: () => undefined,
    onResult: () => {
      const one = monitor.view.get(formatEndpoint(stopped));
      seen.add(`${one?.state} ${one?.staleConnections}`);
    },
  });
  monitor.watch({ endpoints: [witness.endpoint, stopped], localAddresses: new Set() });
  apiservers.atEnd(() => {
    monitor.stop();
  });
  const isThere = (...states: string[]) =>
    waitUntil(
      () => Promise.resolve(states.some((one) => seen.has(one))),
      () => JSON.stringify([...seen]),
    );
  await waitUntil(
    () => Promise.resolve(monitor.all.every(({ history }) => history.readyAnswers > 0)),
    () => JSON.stringify(monitor.all),
  );

  const stoppedAt = performance.now();
  child.kill('SIGSTOP');
  for (let client = 0; client < 20; client += 1) {
    const socket = connect(stopped.port, stopped.address).on('error', () => undefined);
    apiservers.atEnd(() => {
      socket.destroy();
    });
  }
  await isThere('dead half-open');
  await sleep(Math.max(0, 1500 - (performance.now() - stoppedAt)));
  const stoppedSeen = [...seen];
  seen.clear();
  child.kill('SIGCONT');
  const lastedMs = performance.now() - stoppedAt;
  if (lastedMs > longestStopMs) throw new WaitedTooLong(`it stood still for ${lastedMs} ms`);
  // One that a busy machine found dead late was so for under a second, and is ready at once.
  await isThere('warming none', 'ready none');
  expect([...stoppedSeen, ...seen].filter((state) => state.endsWith(' all'))).toEqual([]);
});
