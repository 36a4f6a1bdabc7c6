import { type RunningAgent, startAgent } from '../../support/agent/running-agent.ts';
import { type PageSources, createPages, shareReading } from '../../../agent/serve.ts';
import { describe, test, expect } from '@jest/globals';
import { FakeClock } from '../../support/fakes/clock.ts';
import { sleep } from '../../../lib/clock.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { restoreCaptures } from '../../support/agent/captured-host.ts';
import { createOverview } from '../../../agent/report/page.ts';
import { toHostStatus, type HostStatus } from '../../../agent/report/status.ts';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

function createAgentPages({ agent }: Pick<RunningAgent, 'agent'>, more: Partial<PageSources> = {}) {
  const pages = createPages({
    pod: null,
    behindMs: () => agent.behindMs,
    notReadyReason: () => agent.notReadyReason,
    metrics: { contentType: 'text/plain', print: () => Promise.resolve('') },
    status: () => Promise.resolve(null),
    ...more,
  });
  return async (url: string) => {
    const [path = '', query] = url.split('?');
    const answer = await pages.get(path)?.(new URLSearchParams(query));
    return `${answer?.status} ${answer?.text}`;
  };
}

const minuteMs = 60_000;

describe('/healthz', () => {
  test('is ok on a quiet host, between ticks, and while a tool fails again and again', async () => {
    const world = startAgent();
    const ask = createAgentPages(world);
    expect(await ask('/healthz')).toBe('200 ok\n');
    for (let minutes = 0; minutes < 10; minutes += 1) {
      await world.clock.advance(minuteMs - 1);
      expect(await ask('/healthz')).toBe('200 ok\n');
    }
    for (let minutes = 0; minutes < 10; minutes += 1) {
      for (let count = 0; count < 20; count += 1)
        world.kernel.faults.failNext({ tool: 'nft', code: 'TOOL_FAILED' });
      world.kernel.trigger('ipvs');
      await world.clock.advance(minuteMs);
      expect(await ask('/healthz')).toBe('200 ok\n');
    }
  });

  test('is not ok when a look does not end, and says for how long', async () => {
    const clock = new FakeClock();
    const world = startAgent({ clock, answerMs: 100 * minuteMs });
    const ask = createAgentPages(world);
    await clock.advance(minuteMs);
    expect(await ask('/healthz')).toBe('200 ok\n');
    await clock.advance(2 * minuteMs);
    expect(await ask('/healthz')).toBe(
      '500 the agent hangs: its sync has been running or overdue for 180 s\n',
    );
  });
});

test('/readyz waits for the rules to be right for the first time, and stays ok whatever fails then', async () => {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  for (let count = 0; count < 3; count += 1) kernel.faults.failNext({ tool: 'nft', code: 'TOOL_MISSING' });
  const world = startAgent({ clock, kernel });
  const ask = createAgentPages(world);
  expect(await ask('/readyz')).toBe('503 not ready: the first sync has not ended yet\n');
  await clock.advance(1);
  expect(await ask('/readyz')).toBe('503 not ready: nft failed as the test asked\n');
  await clock.advance(2000);
  expect(await ask('/readyz')).toBe('200 ok\n');
  kernel.faults.failNext({ tool: 'nft', code: 'TOOL_MISSING' });
  kernel.trigger('ipvs');
  await clock.advance(50);
  expect(await ask('/readyz')).toBe('200 ok\n');
});

describe('a probe that names its pod', () => {
  const ask = createAgentPages(
    { agent: startAgent({ answerMs: 100 * minuteMs }).agent },
    { pod: 'daemonset', behindMs: () => 3 * minuteMs, notReadyReason: () => null },
  );

  test('gets what is so of an agent in such a pod, and else hears that its own waits, alive', async () => {
    expect(await ask('/healthz?pod=daemonset')).toMatch(/^500 /);
    expect(await ask('/readyz?pod=daemonset')).toBe('200 ok\n');
    expect(await ask('/healthz?pod=static-pod')).toBe('200 ok\n');
    expect(await ask('/readyz?pod=static-pod')).toBe(
      '503 not ready: waiting for another agent, which runs on this host from a daemonset\n',
    );
  });
});

test('/status has nothing to say before the first look', async () => {
  const world = startAgent();
  expect(await createAgentPages(world)('/status')).toBe('503 no sync has succeeded yet\n');
  const later = createAgentPages(world, { status: () => Promise.resolve('{}\n') });
  expect(await later('/status')).toBe('200 {}\n');
});

test('all who ask while a reading is under way, or fresh, get that one; one that failed is not kept', async () => {
  const clock = new FakeClock();
  const state = { count: 0, isFailing: false };
  const read = async () => {
    state.count += 1;
    const { count, isFailing } = { ...state };
    await sleep(clock, 1000);
    if (isFailing) throw new Error('failed');
    return count;
  };
  const [long, none] = [2000, 0].map((freshMs) => shareReading(read, { clock, freshMs }));
  const asked = [long?.(), long?.(), none?.(), none?.()];
  await clock.advance(1900);
  asked.push(long?.(), none?.());
  await clock.advance(200);
  asked.push(long?.());
  await clock.advance(1000);
  expect(await Promise.all(asked.map((one) => Promise.resolve(one)))).toEqual([1, 1, 2, 2, 1, 3, 4]);
  state.isFailing = true;
  await clock.advance(2000);
  const failed = expect(long?.()).rejects.toThrow('failed');
  await clock.advance(1000);
  await failed;
  state.isFailing = false;
  const next = long?.();
  await clock.advance(1000);
  expect(await next).toBe(6);
});

test('a long reading rests from its end on', async () => {
  const [clock, state] = [new FakeClock(), { count: 0 }];
  const read = () => sleep(clock, 1000).then(() => (state.count += 1));
  const ask = shareReading(read, { clock, freshMs: 0, restFactor: 19 });
  for (const [waitMs = 0, count = 0] of [
    [1000, 1],
    [18_999, 1],
    [1, 1],
    [1000, 2],
  ]) {
    const counted = ask();
    await clock.advance(waitMs);
    expect(await counted).toBe(count);
  }
});

/** Asks for the first lines of a page, without a wait for anything but other masters. */
function createPage(port: number | null = null, change = (status: HostStatus) => status) {
  const clock = new FakeClock();
  const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt'], clock);
  const world = startAgent({ clock, kernel });
  const readStatus = () => {
    const { agent } = world;
    const found = { agent: null, activity: agent.activity, flows: new Map(), keepalived: new Map() };
    const { lastSync } = agent.state;
    return Promise.resolve(
      lastSync && change(toHostStatus({ ...lastSync.assessment, health: agent.health }, found)),
    );
  };
  const listen = port === null ? null : { family: 'ipv4' as const, address: '0.0.0.0', port };
  const read = createOverview({ node: 'm1', listen, clock, lines: [], readStatus });
  const ask = async () => {
    const { answer } = (await read())().sections;
    return answer?.text.replaceAll(/<span class="state (\w+)">|<[^>]+>/g, ' $1 ').replaceAll(/ +/g, ' ');
  };
  return { ...world, ask };
}

test('the page is not green where syncs fail or rules are not read', async () => {
  const refused: string[] = [];
  const { clock, kernel, ask } = createPage(null, ({ assessment, ...status }) => ({
    ...{ ...status, assessment: { ...assessment, refused } },
  }));
  await clock.advance(minuteMs);
  expect(await ask()).toMatch(/ good Balanced over 3 apiservers .* good in sync kube-proxy/);
  refused.push('a source');
  expect(await ask()).toMatch(/ doubtful Balanced .* doubtful in sync, as far as .* a source Last/);
  for (let count = 0; count < 5000; count += 1) kernel.faults.failNext({ code: 'TOOL_FAILED' });
  await clock.advance(3 * minuteMs);
  expect(await ask()).toMatch(
    / doubtful Not checked since 2026-01-01T\S+Z .* doubtful not checked since 2026/,
  );
});

test('whatever another master answers, it is asked again', async () => {
  const answers: Record<string, string> = {};
  const masters = createServer(({ socket }, response) => {
    response.end(answers[socket.localAddress ?? '']);
  });
  await once(masters.listen(0, '0.0.0.0'), 'listening');
  const format = (vips: readonly object[]) => JSON.stringify({ node: 'm', inSync: true, vips });
  const vip = {
    vip: '10.0.0.50:6443',
    held: false,
    mode: '',
    keepalived: { state: '', vrid: 1, priority: 1 },
  };
  type Backend = HostStatus['vips'][number]['backends'][number];
  const toLoopback = ({ endpoint, ...one }: Backend, index: number) => ({
    ...{ ...one, endpoint: { ...endpoint, address: `127.0.0.${index + 1}` }, isLocal: index === 0 },
  });
  const { clock, ask } = createPage((masters.address() as AddressInfo).port, ({ vips, ...rest }) => ({
    ...{ ...rest, vips: vips.map((one) => ({ ...one, backends: one.backends.map(toLoopback) })) },
  }));
  await clock.advance(1000);
  for (const [first, second, shown] of [
    [format([vip]), format(Array.from({ length: 60_000 }, () => ({}))), 'not held by this node'],
    [format([vip]), format([{ ...vip, held: true }]), 'plain held by m'],
    [format([]), format([vip]), 'not held by this node'],
    [format([vip]), format([vip]), 'bad held by no master'],
  ] as const) {
    Object.assign(answers, { '127.0.0.2': first, '127.0.0.3': second });
    await clock.advance(3000);
    expect(await ask()).toContain(`${shown} `);
  }
  masters.close();
});
