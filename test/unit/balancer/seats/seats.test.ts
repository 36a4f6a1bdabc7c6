import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { type SeatFiles, locateSeatFiles } from '../../../../lib/keepalived/write.ts';
import { afterEach, describe, test, expect } from '@jest/globals';
import { join } from 'node:path';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { createRecordingLogger } from '../../../support/fakes/logger.ts';
import { type SeatsState, Seats } from '../../../../balancer/seats/seats.ts';
import type { SeatsInput } from '../../../../balancer/seats/plan.ts';
import {
  type RunningKeepalived,
  type HostAddress,
  listAddresses,
  seatsMark,
} from '../../../../lib/keepalived/read.ts';
import { spawnSync } from 'node:child_process';
import { readFileSync, existsSync, mkdirSync, writeFileSync, rmSync } from 'node:fs';
import { FakeNotices } from '../../../support/fakes/notices.ts';
import { toAnchor } from '../../../../lib/api/vipnat.ts';
import { makePool, makeSeat, makeVirtualIp } from '../../../support/fakes/seat-objects.ts';
import { sleep, systemClock } from '../../../../lib/clock.ts';
import { advanceUntil } from '../../advance-until.ts';

let files: SeatFiles;
let host: FakeHost;
afterEach(() => host.seats.stop());
const folder = makeFolderEach('seats', (path) => {
  files = locateSeatFiles(join(path, 'lb'));
  host = new FakeHost();
});

/** A host whose keepalived holds whatever it has read last, while it runs. */
class FakeHost {
  readonly clock = new FakeClock();
  readonly logger = createRecordingLogger();
  readonly states: SeatsState[] = [];
  /** Inputs that were planned, with the state of that moment. */
  readonly planned: [SeatsInput, SeatsState | undefined][] = [];
  readonly others = new Map<string, string>();
  running: RunningKeepalived | null = { pid: 7, startedMs: 0, ageMs: 60_000 };
  held: readonly string[] = [];
  /** Networks that routes lead to. */
  onLink: HostAddress[] = [];
  routeReads = 0;
  prefixLength = 24;
  /** On kube-ipvs0. */
  ipvs: readonly string[] = [];
  onAsked: (addresses: string[]) => void = () => undefined;
  /** keepalived has read its file, and has not done what it says yet. */
  isSlow = false;
  readonly seats: Seats;

  constructor() {
    this.seats = new Seats({
      ...{ node: 'w1', files, clock: this.clock, logger: this.logger },
      testConfiguration: () => Promise.resolve(null),
      findRunning: () => Promise.resolve(this.running),
      reload: () => {
        if (!this.isSlow) this.held = listAddresses(readFileSync(files.file, 'utf8'));
        return true;
      },
      readAddresses: () => Promise.resolve(this.listAddresses()),
      readOnLinkNetworks: () => {
        this.routeReads += 1;
        return Promise.resolve(this.onLink);
      },
      findAddressUsers: (questions) => {
        this.onAsked(questions.map(({ address }) => address));
        return Promise.resolve(this.others);
      },
      notices: new FakeNotices(),
      onState: (state) => this.states.push(state),
      onPlanned: (input) => this.planned.push([input, this.states.at(-1)]),
    });
  }

  get told(): string[] {
    return this.logger.lines.map(({ message }) => message);
  }

  listAddresses(): HostAddress[] {
    const place = (address: string, prefixLength: number, device = isAnchor(address) ? 'lo' : 'eth0') =>
      address.includes(':')
        ? ({ family: 'ipv6', address, device, prefixLength: 4 * prefixLength } as const)
        : ({ family: 'ipv4', address, device, prefixLength } as const);
    const ipvs = this.ipvs.map((one) => place(one, 32, 'kube-ipvs0'));
    const own = [place('10.0.9.1', this.prefixLength), place('fd00:9::1', 16)];
    return [...own, ...ipvs, ...this.held.map((one) => place(one, 32))];
  }
}

const anchor = toAnchor('ipv4', 1);
const isAnchor = (address: string) => [anchor, toAnchor('ipv6', 1)].includes(address);
const pool = makePool('default', [makeSeat(0, '10.0.9.10', ['w1', 'w2'])]);
const give = (...addresses: string[]) => ({
  pools: [pool],
  virtualIps: addresses.map((one) => makeVirtualIp(one, 'default/0')),
});
const readFile = () => (existsSync(files.file) ? listAddresses(readFileSync(files.file, 'utf8')) : null);

/** So much time passes, with room for files in between. */
async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 50) {
    await host.clock.advance(50);
    await sleep(systemClock, 1);
  }
}

const waitFor = (judge: () => boolean) => advanceUntil(host.clock, String(judge), judge, () => pass(50));

describe('the seats of a node', () => {
  test('stay as a former life has left them until the API is heard', async () => {
    mkdirSync(join(folder.path, 'lb'));
    const former = `${seatsMark}\n${files.checkBalancer}\n`;
    for (const file of [files.file, files.seen]) writeFileSync(file, former);
    host.seats.start();
    await pass(1200);
    const { states, seats } = host;
    expect([readFileSync(files.file, 'utf8'), states, seats.isWatched]).toEqual([former, [], null]);
  });

  test('are written, held and told; an address comes once nobody else has it', async () => {
    // A Service has the anchor, and kube-proxy is in mode ipvs.
    host.ipvs = ['10.0.9.10'];
    host.seats.start();
    host.seats.update({ ...give('10.0.9.20'), version: '20' });
    await waitFor(() => host.states.length === 2);
    expect(host.states).toEqual([
      { held: [], inUse: [], unheld: {}, announced: '20' },
      { held: ['default/0'], inUse: [], unheld: {}, announced: '20' },
    ]);
    host.others.set('10.0.9.21', '02:00:00:00:00:01');
    host.seats.update(give('10.0.9.20', '10.0.9.21', '10.0.9.22'));
    await waitFor(() => host.held.includes('10.0.9.22'));
    expect(host.held).toEqual([anchor, '10.0.9.20', '10.0.9.22']);
    expect(host.states.at(-1)).toMatchObject({ held: ['default/0'], inUse: ['10.0.9.21'], unheld: {} });
    expect(host.told).toContain('another host (MAC 02:00:00:00:00:01) answers for 10.0.9.21');
  });

  test.each([
    ['10.0.9.10', ['10.0.9.20', '10.0.9.21', '10.0.9.22']],
    ['fd00:9::10', ['fd00:9::20', 'fd00:9::21', 'fd00:9::22']],
  ])('of %s have no address that nobody had before it was asked for: %j', async (network, texts) => {
    const asked: string[] = [];
    host.onAsked = (addresses) => asked.push(...addresses);
    const [former = '', others = '', free = ''] = texts;
    host.others.set(others, '02:00:00:00:00:01');
    const make = (text: string, isNew: boolean) =>
      makeVirtualIp(text.replaceAll(':', '-'), 'default/0', { isNew });
    host.running = null;
    host.seats.start();
    host.seats.update({
      pools: [makePool('default', [makeSeat(0, network, ['w1', 'w2'])])],
      virtualIps: [make(former, false), make(others, true), make(free, true)],
    });
    await waitFor(() => readFile() !== null);
    expect([readFile()?.slice(1), asked]).toEqual([[former], []]);
    host.running = { pid: 8, startedMs: 0, ageMs: 60_000 };
    await waitFor(() => host.held.includes(free));
    expect([host.held.slice(1), asked]).toEqual([
      [former, free],
      [others, free],
    ]);
    expect(host.states.at(-1)?.inUse).toEqual([others]);
  });

  test('are planned before it is said so, with what this node cannot hold', async () => {
    host.seats.start();
    const [first, wrong] = [give('10.0.9.20'), give('10.0.9.20', '192.0.2.20')];
    host.seats.update(first);
    await waitFor(() => host.planned.length === 1);
    host.seats.update(wrong);
    await waitFor(() => host.planned.length === 2);
    expect(host.planned.map(([input]) => input)).toEqual([first, wrong]);
    const unheld = { '192.0.2.20': '192.0.2.20 is in no subnet of this host (it has eth0)' };
    expect(host.planned.map(([, state]) => state?.unheld)).toEqual([{}, unheld]);
  });

  test('are held where only a route leads to their network; routes are read where addresses do not tell, once a minute', async () => {
    host.seats.start();
    host.seats.update(give('10.0.9.20'));
    await waitFor(() => host.held.includes('10.0.9.20'));
    expect(host.routeReads).toBe(0);
    host.prefixLength = 32;
    await waitFor(() => !host.held.includes('10.0.9.20'));
    expect(host.states.at(-1)?.unheld).toHaveProperty(['default/0']);
    await pass(5000);
    expect(host.routeReads).toBe(1);
    host.onLink = [{ family: 'ipv4', address: '10.0.9.0', device: 'eth0', prefixLength: 24 }];
    await host.clock.advance(60_000);
    await waitFor(() => host.held.includes('10.0.9.20'));
    expect([host.routeReads, host.states.at(-1)?.unheld]).toEqual([2, {}]);
    host.onLink = [];
    await host.clock.advance(60_000);
    await waitFor(() => !host.held.includes('10.0.9.20'));
  });

  test('are announced up to the version whose addresses the kernel has, while further ones are on their way', async () => {
    host.seats.start();
    host.seats.update({ ...give('10.0.9.20'), version: '20' });
    await waitFor(() => host.held.includes('10.0.9.20'));
    host.isSlow = true;
    host.seats.update({ ...give('10.0.9.20', '10.0.9.21'), version: '21' });
    await waitFor(() => readFile()?.includes('10.0.9.21') === true);
    const before = host.held;
    host.seats.update({ ...give('10.0.9.20', '10.0.9.21', '10.0.9.22'), version: '22' });
    await waitFor(() => readFile()?.includes('10.0.9.22') === true);
    expect(host.states.at(-1)).toMatchObject({ held: ['default/0'], announced: '20' });
    host.held = [...before, '10.0.9.21'];
    await waitFor(() => host.states.at(-1)?.announced !== '20');
    expect(host.states.at(-1)).toMatchObject({ announced: '21' });
    // One that another host has is not awaited.
    host.others.set('10.0.9.23', '02:00:00:00:00:01');
    host.seats.update({ ...give('10.0.9.20', '10.0.9.21', '10.0.9.23'), version: '23' });
    await waitFor(() => host.states.at(-1)?.announced === '23');
    expect(host.states.at(-1)).toMatchObject({ inUse: ['10.0.9.23'] });
  });

  test('are asked for now and then, with the anchor and a ClusterIP of kube-ipvs0: nodes of ours have these, too', async () => {
    const asked: string[][] = [];
    host.onAsked = (addresses) => asked.push(addresses);
    host.ipvs = ['10.0.9.20', '10.96.0.1'];
    host.seats.start();
    host.seats.update({ ...give('10.0.9.20'), version: '20' });
    await waitFor(() => host.held.includes('10.0.9.20'));
    asked.length = 0;
    await host.clock.advance(61_000);
    await waitFor(() => asked.length > 0);
    expect(asked[0]).toEqual(['10.0.9.20', anchor, '10.96.0.1']);
  });

  test('go when keepalived takes the addresses away, which no one says but the kernel', async () => {
    host.seats.start();
    host.seats.update(give());
    await waitFor(() => host.states.length === 2);
    host.held = [];
    await waitFor(() => host.states.length === 3);
    expect(host.states.at(-1)).toMatchObject({ held: [], inUse: [], unheld: {} });
    expect(host.told.filter((line) => line.includes('seat default/0'))).toEqual([
      'this node holds seat default/0',
      'this node no longer holds seat default/0',
    ]);
  });

  test('keep what a killed keepalived has left in the file until the next one has read it', async () => {
    host.seats.start();
    host.seats.update(give('10.0.9.20', '10.0.9.21'));
    await waitFor(() => host.held.includes('10.0.9.21'));
    host.running = null;
    await waitFor(() => host.told.some((line) => line.endsWith('does not run: this node holds no address')));
    host.seats.update(give('10.0.9.20', '10.0.9.22'));
    await waitFor(() => readFile()?.includes('10.0.9.22') === true);
    expect(readFile()).toContain('10.0.9.21');
    // It removes what its file has, and takes nothing yet.
    host.held = [];
    host.running = { pid: 8, startedMs: 90_000, ageMs: 1000 };
    await waitFor(() => readFile()?.includes('10.0.9.21') === false);
    expect(readFile()).toEqual([anchor, '10.0.9.20', '10.0.9.22']);
  });

  test('are given up for a while once a balancer that a Service needs has ended or hangs, and the last node holds on', async () => {
    host.seats.start();
    host.seats.update(give('10.0.9.20'));
    await waitFor(() => host.held.includes('10.0.9.20'));
    const [, command = ''] = /script "(.*)"/.exec(readFileSync(files.file, 'utf8')) ?? [];
    const look = () => spawnSync('sh', ['-c', command]).status;
    // No time passes: as in a process that is stopped.
    const lookOften = () => Array.from({ length: 12 }, look).join('');
    await pass(5000);
    expect(lookOften()).toBe('000000000000');
    host.seats.setNeedsBalancer(true);
    await pass(5500);
    expect(lookOften()).toBe('000000111100');
    // Somebody empties the folder: that says nothing of the balancer.
    rmSync(files.checkBalancer);
    expect(look()).toBe(0);
    await pass(5500);
    expect(lookOften()).toBe('000000111100');
    // keepalived 2.2.7 looks after each reload, too: that is no time that passes.
    for (const address of ['10.0.9.21', '10.0.9.22', '10.0.9.23']) {
      host.seats.update(give(address));
      await waitFor(() => readFile()?.includes(address) === true);
      expect([look(), readFileSync(files.seen, 'utf8')]).toEqual([0, expect.stringMatching(/ 0\n$/)]);
    }
    rmSync(files.beat);
    expect(lookOften()).toBe('000000000000');
  });

  test('are not given up where keepalived does not run the script, which is told once', async () => {
    host.seats.start();
    host.seats.update(give('10.0.9.20'));
    await waitFor(() => host.held.includes('10.0.9.20'));
    const go = async (isRun: boolean) => {
      for (let passed = 0; passed < 140; passed += 5) {
        if (isRun) writeFileSync(files.seen, `${passed} 0\n`);
        await pass(200);
        await host.clock.advance(4800);
      }
      return [host.seats.isWatched, host.told.filter((line) => line.includes('check-balancer')).length];
    };
    expect(await go(true)).toEqual([true, 0]);
    expect(await go(false)).toEqual([false, 1]);
    expect(await go(true)).toEqual([true, 1]);
    host.running = null;
    expect(await go(false)).toEqual([null, 1]);
  });

  test('go on after a failure, which is told once', async () => {
    mkdirSync(files.file, { recursive: true });
    host.seats.start();
    host.seats.update(give());
    const failures = () => host.told.filter((line) => line.startsWith('the seats of this node cannot be'));
    await waitFor(() => failures().length > 0);
    await pass(1200);
    expect(failures()).toHaveLength(1);
    // The node reports what it has programmed all the same.
    expect(host.states).toEqual([{ held: [], inUse: [], unheld: {}, announced: null }]);
  });
});
