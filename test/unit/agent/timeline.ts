import type { Config } from '../../../config/options.ts';
import { Host, listTexts, flowTo, toText, toName } from './host.ts';
import type { AgentWorld } from '../../support/agent/running-agent.ts';
import type { Behaviour } from '../../support/fakes/apiserver.ts';
import { VipnatError, type ErrorCode } from '../../../lib/errors.ts';
import { expect, test } from '@jest/globals';

/** What a host is before its first agent starts. */
export interface Beginning {
  readonly config?: Partial<Config>;
  readonly prepare?: (host: Host) => void;
  /** What each of its agents is started with. */
  readonly world?: AgentWorld;
}

/**
 * Plays what happens to an agent, on a host whose kube-proxy lists m1, m2 and m3. The agent has run for five seconds,
 * unless the first step is `before`: then it is for the timeline to `start` it.
 */
export async function play(timeline: string, { config, prepare, world }: Beginning = {}): Promise<Host> {
  const host = new Host();
  host.config = { ...host.config, ...config };
  const [, before, steps = ''] = /^(before; *)?(.*)$/s.exec(timeline) ?? [];
  if (before === undefined) host.proxy(listTexts('m1 m2 m3'));
  prepare?.(host);
  if (before === undefined) {
    await host.start(world);
    await host.clock.advance(5000);
  }
  const marks = { writes: host.kernel.applied.length, lines: 0 };
  await playSteps(steps, {
    ...listCauses(host),
    ...listFaults(host),
    ...listLives(host, world),
    ...listChecks(host),
    ...listMarks(host, marks),
  });
  host.expectNoBreach();
  return host;
}

export function testAgent(titleToTimeline: Readonly<Record<string, string>>, beginning?: Beginning): void {
  testTimelines(titleToTimeline, (timeline) => play(timeline, beginning));
}

const behaviours = 'healthy|refusing|silent|clogged|unreachable|ending|frozen|slow|failing|ailing|hanging up';

/** What apiservers, kube-proxy, the API and others do. */
function listCauses(host: Host): Verbs {
  const { clock, kernel } = host;
  return {
    'wait (\\d+)': (ms) => clock.advance(Number(ms)),
    [`([m\\d ]+) (${behaviours})`]: (who = '', behaviour) => {
      for (const text of listTexts(who)) host.set(text, behaviour as Behaviour);
    },
    'proxy (.*)': (who = '') => {
      host.proxy(listTexts(who));
      kernel.trigger('nft-generation');
    },
    'api (m.*|none)': (who = '') => {
      host.running.api.list('ipv4', listTexts(who));
    },
    'api lost': () => {
      host.running.api.lose();
    },
    'api regained': () => {
      host.running.api.regain();
    },
    '(m\\d) has a connection': (name = '') => {
      kernel.trackFlow(flowTo(toText(name)));
    },
    '(m\\d) has none': (name = '') => kernel.resetFlows(flowTo(toText(name))),
    look: () => {
      kernel.trigger('nft-generation');
    },
    clear: () => {
      kernel.run('ipv4', 'nft', '*nat\n-F\n-X\nCOMMIT\n*filter\n-F\n-X\nCOMMIT\n');
    },
    'unhook(?: (OUTPUT))?': (chain = 'PREROUTING') => {
      kernel.run('ipv4', 'nft', `*nat\n-F ${chain}\nCOMMIT\n`);
    },
    'forwarding (on|off)': (word) => {
      kernel.forwarding = { ipv4: word === 'on', ipv6: word === 'on' };
    },
    'leave (VIPNAT-\\w+)': (chain) => {
      kernel.run('ipv4', 'nft', `*nat\n:${chain} - [0:0]\nCOMMIT\n`);
    },
  };
}

/** What tools do. */
function listFaults({ kernel }: Host): Verbs {
  const { faults } = kernel;
  return {
    'reads (fail|hang)': (how) => {
      const failure = new VipnatError('TABLE_INCOMPATIBLE', 'iptables-nft-save left the table nat out');
      kernel.read = () => (how === 'fail' ? Promise.reject(failure) : Promise.withResolvers<never>().promise);
    },
    'fail (\\S+)(?: as (\\w+))?(?: (\\d+) times)?': (tool = '', named: string | undefined, times = '1') => {
      const usual = tool === 'connections' || tool === 'netlink' ? 'NETLINK_FAILED' : 'TOOL_FAILED';
      const code = (named ?? usual) as ErrorCode;
      for (let time = 0; time < Number(times); time += 1) faults.failNext({ tool, code });
    },
    'hang (\\S+)': (tool) => {
      faults.hangNext(tool);
    },
    'delay next (\\S+) (\\d+)': (tool = '', ms) => {
      faults.delayNext(tool, Number(ms));
    },
    'delay (\\S+) (\\d+)': (tool = '', ms) => {
      faults.delayEvery(tool, Number(ms));
    },
  };
}

/** How agents come and go. */
function listLives(host: Host, world?: AgentWorld): Verbs {
  let isOver = false;
  return {
    start: () => host.start(world),
    stop: () => host.running.agent.stop(),
    /** It is told to stop, and nobody waits for that. */
    stopping: () => void host.running.agent.stop().then(() => (isOver = true)),
    '(not )?over': (not = '') => [isOver, not === ''],
    idle: () => [host.clock.pending, 0],
    kill: () => {
      host.kill();
    },
  };
}

/** What the rules say, and what the agent thinks. */
function listChecks(host: Host): Verbs {
  const { kernel } = host;
  const hooked = () => /-A PREROUTING .*-j VIPNAT\n/.test(kernel.show('ipv4', 'nft'));
  const toReset = ({ backend, isHalfOpen }: (typeof kernel.resets)[number]) =>
    `${toName(`${backend.address}:${backend.port}`)} ${isHalfOpen ? 'half-open' : 'all'}`;
  return {
    'targets (.*)': (targets) => [host.targets || 'none', targets],
    'only (.*) for (\\d+)': async (targets, ms) => [await host.watchTargets(Number(ms)), [targets]],
    '(un)?hooked': (un = '') => [hooked(), un === ''],
    forwards: () => [kernel.forwarding.ipv4, true],
    'health (.*)': (health) => [host.health, health],
    'watched (.*)': (who) => [host.health.replaceAll(/ \w+(,|$)/g, '') || 'nobody', who],
    '(m\\d) is (\\w+)': (name = '', state) => [host.running.agent.health.get(toText(name))?.state, state],
    'told last (\\d)': (value) => [host.running.trackFile.values.at(-1), Number(value)],
    'told (.*)': (values) => [host.running.trackFile.values.join(' '), values],
    'saved (.*)': (saves) => [host.saves.join(', '), saves],
    'resets (.*)': (resets) => [kernel.resets.map(toReset).join(', ') || 'none', resets],
    'counted (\\d+)': (counts) => [kernel.counts, Number(counts)],
    '(m\\d) (un)?probed': async (name = '', un = '') => [await host.isProbed(toText(name)), un === ''],
  };
}

/** What was done since a mark. */
function listMarks(host: Host, marks: { writes: number; lines: number }): Verbs {
  const { kernel } = host;
  const said = () => host.running.logger.lines.slice(marks.lines).map(({ message }) => message);
  return {
    mark: () => {
      Object.assign(marks, { writes: kernel.applied.length, lines: host.running.logger.lines.length });
    },
    'writes (\\d+)': (count) => [kernel.applied.length - marks.writes, Number(count)],
    'no line': () => [said(), []],
    '(\\d+) lines? of (\\w+) (.*)': (count, level = '', text = '') => {
      const found = host.lines(level).filter((line) => new RegExp(text).test(line));
      expect(found).toHaveLength(Number(count));
    },
  };
}

/** By what a step may say, as an expression: what it does with the groups. What it returns is what is seen and what is expected. */
export type Verbs = Readonly<Record<string, (...words: string[]) => unknown>>;

/** Hours of a fake clock take some seconds on a busy machine. */
const limitMs = 60_000;

/** Plays a timeline: steps with semicolons between them, each as one of the verbs reads it. A step that fails is named. */
export async function playSteps(timeline: string, verbs: Verbs): Promise<void> {
  for (const step of timeline.split(/;\s*/).filter((text) => text !== '')) {
    const [form = '', act] = Object.entries(verbs).find(([one]) => toForm(one).test(step)) ?? [];
    if (act === undefined) throw new Error(`no verb reads "${step}"`);
    const answer = await endIn(step, act(...(toForm(form).exec(step) ?? []).slice(1)));
    if (!Array.isArray(answer)) continue;
    const [found, expected] = answer as unknown[];
    expect({ step, found }).toEqual({ step, found: expected });
  }
}

const toForm = (text: string) => new RegExp(`^(?:${text})$`);

/** A step whose promise is kept by nobody fails with its own words, long before the test's limit. */
async function endIn(step: string, act: unknown): Promise<unknown> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    reject(new Error(`"${step}" does not end`));
  }, limitMs);
  return await Promise.race([act, promise]).finally(() => {
    clearTimeout(timer);
  });
}

export function testTimelines(
  titleToTimeline: Readonly<Record<string, string>>,
  play: (timeline: string) => Promise<unknown>,
): void {
  test.each(Object.entries(titleToTimeline))('%s', async (_title, timeline) => {
    await play(timeline);
  });
}

/** Titles and timelines for each of some values. */
export function forEach<Value>(
  values: readonly Value[],
  toRow: (value: Value) => readonly [string, string],
): Record<string, string> {
  return Object.fromEntries(values.map(toRow));
}
