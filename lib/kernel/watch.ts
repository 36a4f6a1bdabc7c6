import { readIpvs } from './host.ts';
import { type KnownForwarding, readForwarding } from './forwarding.ts';
import { type Watch, type Trigger, ownTable } from './port.ts';
import {
  createNetlinkClient,
  type NetlinkClient,
  type NetlinkQuestioner,
  type NetlinkMessage,
  visitWith,
  visitAttributes,
  readGeneration,
} from './netlink.ts';
import { readRuleHandles, type RulePlace } from './nft-netlink.ts';
import { addressList } from './addresses.ts';
import type { Cancel, Clock } from '../clock.ts';
import { VipnatError, toVipnatError } from '../errors.ts';
import { isInPath, toolMissing, checkDescriptors, toolEnvironment, execTool } from './tools.ts';
import { existsSync } from 'node:fs';

/** Starts a source for each trigger. One that fails is reported and takes nothing from the others. */
export function startWatch(options: SourceOptions, known: KnownForwarding): Watch {
  const netfilter = createNetlinkClient('netfilter');
  const route = createNetlinkClient('route');
  const routes = createNetlinkClient('route', true);
  const start = <T extends string | number | null>({ trigger, ...poll }: Poll<T>) => {
    const onChange = () => {
      options.onTrigger(trigger());
    };
    return startPoll({ ...options, onChange, ...poll });
  };
  const triggerToSource: Readonly<Record<Exclude<Trigger, 'own-rules'>, Watch>> = {
    'nft-generation': start(pollGeneration(options.clock, netfilter)),
    addresses: start(pollAddresses({ few: route, many: routes })),
    ipvs: start(ipvsPoll),
    forwarding: start({
      sample: async () => known.see(await readForwarding()),
      everyMs: () => forwardingPollMs,
      trigger: () => 'forwarding',
    }),
    'xtables-lock': startLockWatch(options),
  };
  const sources = Object.values(triggerToSource);
  return {
    ready: Promise.all(sources.map(({ ready }) => ready)).then(() => undefined),
    async stop() {
      await Promise.all(sources.map((source) => source.stop()));
      netfilter.close();
      route.close();
      routes.close();
    },
  };
}

/** While vipnat's rules are gone, connections go to the VIP holder alone. The kernel answers in microseconds, waking up costs many times that: docs/design.md. */
const generationPollMs = 50;

/** To read the handles costs many times what the generation does: where somebody writes all the time, so often at most. */
const ownRulesRestMs = 100;

/** Rules do not depend on the VIP's holder, which is only reported. */
const addressPollMs = 200;

/** The kernel takes a microsecond to list an address. kube-proxy's mode ipvs gives a host one for each Service: 5,000 are read each 1.5 s. */
const pollMsPerAddress = 0.3;

/** From here on the larger parts of a list are worth their memory. */
const manyAddresses = 500;

/** kube-proxy itself writes at most once a second. */
const ipvsPollMs = 1000;

/** Without ip_vs in the kernel there is nothing to see until kube-proxy starts in that mode, which takes seconds. */
const missingIpvsPollMs = 5000;

/** While it is off, new connections hang, and clients try again after a second. inotify does not see /proc. */
const forwardingPollMs = 1000;

/** What is looked at again and again, and what a change of it is. */
type Poll<T> = Pick<PollOptions<T>, 'sample' | 'everyMs'> & { readonly trigger: () => Trigger };

function pollGeneration(clock: Clock, client: NetlinkClient): Poll<number> {
  let seen = { generation: -1, own: '', at: -Infinity };
  let trigger: Trigger = 'nft-generation';
  return {
    sample: async () => {
      const generation = await readGeneration(client);
      // Later samples report a change that comes too early.
      if (generation === seen.generation || clock.now() - seen.at < ownRulesRestMs) return seen.generation;
      const own = await readOwnRules(client);
      trigger = own === seen.own ? 'nft-generation' : 'own-rules';
      seen = { generation, own, at: clock.now() };
      return generation;
    },
    everyMs: () => generationPollMs,
    trigger: () => trigger,
  };
}

function pollAddresses(clients: Readonly<Record<'few' | 'many', NetlinkClient>>): Poll<string> {
  const readDigest = createAddressDigester();
  let count = 0;
  return {
    sample: async () => {
      const digest = await readDigest(count < manyAddresses ? clients.few : clients.many);
      ({ count } = digest);
      return `${digest.count} ${digest.sum}`;
    },
    everyMs: () => Math.max(addressPollMs, count * pollMsPerAddress),
    trigger: () => 'addresses',
  };
}

const ipvsPoll: Poll<string | null> = {
  sample: async () => {
    const ipvs = await readIpvs();
    return ipvs === null ? null : withoutConnectionCounts(ipvs);
  },
  everyMs: (seen) => (seen === null ? missingIpvsPollMs : ipvsPollMs),
  trigger: () => 'ipvs',
};

/** How many addresses there are, and a number that changes with them, their interfaces and whether they can be used. */
interface Digest {
  readonly count: number;
  readonly sum: number;
}

/**
 * Makes what reads the addresses of this host again and again, and keeps none. kube-proxy's mode ipvs gives a host thousands: what comes in the
 * same bytes as before is not looked into. Takes a client of the protocol route. One at a time. Rejects with NETLINK_FAILED.
 */
export function createAddressDigester(): (client: NetlinkQuestioner) => Promise<Digest> {
  let before: readonly Part[] = [];
  return async (client) => {
    const parts: Part[] = [];
    const read = (datagram: Buffer, sequence: number) => {
      const known = before[parts.length];
      const part = known?.bytes.equals(datagram) === true ? known : digest(datagram, sequence);
      parts.push(part);
      return part.rest;
    };
    const { question: type, payload } = addressList;
    await client.request({ type, payload, isDump: true, subject: 'its addresses', read });
    before = parts;
    return {
      count: parts.reduce((total, part) => total + part.count, 0),
      // Not by their order: the kernel's parts are of other sizes each time at first.
      sum: parts.reduce((total, part) => (total + part.sum) | 0, 0),
    };
  };
}

/** A datagram, and what it comes to. */
interface Part extends Digest {
  readonly bytes: Buffer;
  readonly rest: readonly NetlinkMessage[];
}

function digest(bytes: Buffer, sequence: number): Part {
  let [count, sum] = [0, 0];
  const read = visitWith((datagram, start, end) => {
    count += 1;
    sum = (sum + digestAddress(datagram, start, end)) | 0;
  });
  return { bytes, rest: read(bytes, sequence), count, sum };
}

// linux/if_addr.h: IFA_ADDRESS, IFA_LOCAL and IFA_FLAGS. Others say for how long an address is there still, which changes each second.
const urgent: readonly number[] = [1, 2, 8];
const { leastBytes: ifaddrmsgBytes } = addressList;

function digestAddress(datagram: Buffer, start: number, end: number): number {
  const device = start + 4;
  let value = mix(fnvBasis, datagram, device, Math.min(start + ifaddrmsgBytes, end));
  visitAttributes(datagram, start + ifaddrmsgBytes, end, (type, from, to) => {
    if (urgent.includes(type)) value = mix(value, datagram, from, to);
  });
  return value;
}

/** FNV-1a with 32 bits. */
function mix(before: number, bytes: Buffer, from: number, to: number): number {
  let value = before;
  for (let at = from; at < to; at += 1) value = Math.imul(value ^ (bytes[at] ?? 0), fnvPrime);
  return value;
}

const fnvBasis = 0x811c9dc5;
const fnvPrime = 0x01000193;

/** The same without the connection counts, which move with every connection and say nothing about the set-up. */
export function withoutConnectionCounts(ipvs: string): string {
  return ipvs.replaceAll(/^( {2}-> \S+ +\S+ +\d+).*$/gm, '$1');
}

/**
 * Sees that somebody ran iptables-legacy.
 *
 * Goal: look again soon after a foreign change to the legacy tables.
 * Tension: the kernel tells nobody about them. Every iptables-legacy and its restore opens /run/xtables.lock, but
 * Node's fs.watch does not ask for open and close, and the inotify packages do not compile.
 * Compromise: an inotifywait child. It also sees runs that only look, and none in containers with a lock of their
 * own: the loop's slow tick covers those.
 */

/** Starts the child, and again 1 s to 60 s after each of its deaths; after a gap it triggers, for what was missed. */
export function startLockWatch({ clock, onTrigger, onProblem }: SourceOptions): Watch {
  const stopping = new AbortController();
  let cancel: Cancel = () => undefined;
  let deaths = 0;
  const { promise: ready, resolve: becomeReady } = Promise.withResolvers<undefined>();
  let running = run();

  function trigger(): void {
    if (!stopping.signal.aborted) onTrigger('xtables-lock');
  }

  function noteEstablished(): void {
    if (deaths > 0) trigger();
    deaths = 0;
    becomeReady(undefined);
  }

  async function run(): Promise<void> {
    const problem = await runInotifywait(trigger, noteEstablished, stopping.signal);
    becomeReady(undefined);
    if (stopping.signal.aborted) return;
    const isFirst = deaths === 0;
    cancel = clock.schedule(Math.min(firstDelayMs * 2 ** deaths, longestDelayMs), () => {
      // Reported only now: Ctrl-C reaches the child before it reaches us, and that death is nobody's problem.
      if (isFirst) onProblem(problem);
      running = run();
    });
    deaths += 1;
  }

  return {
    ready,
    async stop() {
      stopping.abort();
      cancel();
      await running;
    },
  };
}

const firstDelayMs = 1000;
const longestDelayMs = 60_000;

/**
 * Watches the xtables lock by an inotifywait child until that dies, as by the signal, and answers why it did. `onEvent` is called when
 * somebody took or released the lock, `onEstablished` when events are seen from now on. Never rejects.
 */
async function runInotifywait(onEvent: () => void, onEstablished: () => void, signal: AbortSignal) {
  if (!isInPath('inotifywait')) return toolMissing('inotifywait');
  const [file, ...rest] = await buildCommand();
  const { execa } = await import('execa');
  try {
    checkDescriptors();
  } catch (error) {
    return watchFailed((error as Error).message);
  }
  const child = execa(file, rest, { ...childOptions, env: toolEnvironment(), cancelSignal: signal });
  child.stdout.on('data', onEvent);
  child.stderr.on('data', (text: Buffer) => {
    // inotifywait 3.22 says so on standard error.
    if (text.includes('Watches established')) onEstablished();
  });
  const { shortMessage = 'inotifywait ended' } = await child;
  return watchFailed(shortMessage);
}

function watchFailed(reason: string): VipnatError {
  return new VipnatError(
    'TOOL_FAILED',
    `vipnat cannot watch the xtables lock (${reason}). Until it can, it checks iptables-legacy less often`,
  );
}

const childOptions = {
  stdin: 'ignore',
  buffer: false,
  reject: false,
  killSignal: 'SIGKILL',
} as const;

const inotifywait = [
  'inotifywait',
  '--monitor',
  // Opened for reading and closed: what iptables-legacy does to its lock, and iptables-legacy-save does not.
  ...['--event', 'close_nowrite'],
  ...['--include', String.raw`/xtables\.lock$`],
  ...['--format', '%e'],
  // The folder: the lock file itself may come, go and be replaced.
  '/run',
] as const;

/** In a container it is mounted from the host by itself: then a watch of its folder there sees no change. */
const lockFile = '/run/xtables.lock';

/** With util-linux's setpriv the kernel ends the child when we die, even by SIGKILL; without, its next event does (SIGPIPE). */
async function buildCommand(): Promise<readonly [string, ...string[]]> {
  const setpriv = ['setpriv', '--pdeathsig', 'KILL'] as const;
  const probe = { tool: 'setpriv', arguments: [...setpriv.slice(1), 'true'], limitMs: probeLimitMs };
  const isAble = await execTool(probe).then(
    ({ exitCode }) => exitCode === 0,
    () => false,
  );
  const watch = existsSync(lockFile) ? ([...inotifywait, lockFile] as const) : inotifywait;
  return isAble ? [...setpriv, ...watch] : watch;
}

/** It answers in 2 ms. */
const probeLimitMs = 2000;

/**
 * Distinguishes changes of vipnat's own rules from all others.
 *
 * Goal: what another program does to vipnat's rules is repaired soon, also while somebody writes to nftables all the time.
 * Tension: syncs that find nothing become less frequent, and the generation counts the changes of everybody.
 * Compromise: after each change, the handles of a few rules: of vipnat's own chain, and of the chains that lead to it. Its other chains
 * are not read here: the following sync finds changes to them.
 */

/** What vipnat's rules are at the time, as a text to compare. Rejects as readRuleHandles does. */
async function readOwnRules(client: NetlinkClient): Promise<string> {
  const found: string[] = [];
  for (const place of places) found.push((await readRuleHandles(client, place)).join());
  return found.join(' ');
}

/** Where they are: in iptables-nft, or in a table of their own. */
const places: readonly RulePlace[] = (['ip', 'ip6'] as const).flatMap((family) => [
  ...['VIPNAT', 'PREROUTING', 'OUTPUT'].map((chain) => ({ family, table: 'nat', chain })),
  { family, table: ownTable },
]);

/** One thing to look at again and again. */
export interface PollOptions<T> {
  readonly clock: Clock;
  /** Takes one sample. A rejection is reported, and polling continues. */
  readonly sample: () => Promise<T>;
  /** Milliseconds between samples. They are at multiples of it on the clock, so that several polls wake the processor together. */
  readonly everyMs: (seen: T | undefined) => number;
  /** Called when a sample differs from the one before. The first sample is only compared with later ones. */
  readonly onChange: () => void;
  /** Called with the first of a row of failures. */
  readonly onProblem: (problem: VipnatError) => void;
}

/** Starts to poll immediately. Samples never overlap: each is planned when the one before has ended. */
export function startPoll<T extends string | number | null>(options: PollOptions<T>): Watch {
  let seen: T | undefined;
  let isFailing = false;
  let isStopped = false;
  let cancel: Cancel = () => undefined;
  let sampling = sample();
  const ready = sampling;

  async function sample(): Promise<void> {
    const [result] = await Promise.allSettled([options.sample()]);
    // Stopped meanwhile: an answer that comes late is nobody's.
    if (isStopped) return;
    const wasFailing = isFailing;
    isFailing = result.status === 'rejected';
    if (result.status === 'fulfilled') {
      const before = seen;
      seen = result.value;
      if (before !== undefined && before !== seen) options.onChange();
    } else if (!wasFailing)
      options.onProblem(toVipnatError(result.reason, 'NETLINK_FAILED', "reading the kernel's state"));
    cancel = options.clock.schedule(untilNextMultiple(options.clock.now(), options.everyMs(seen)), () => {
      sampling = sample();
    });
  }

  return {
    ready,
    async stop() {
      isStopped = true;
      cancel();
      await sampling;
    },
  };
}

/** A timer may fire a little early: a multiple that is nearly reached counts as the current sample's. */
function untilNextMultiple(nowMs: number, everyMs: number): number {
  const rest = Math.ceil(everyMs - (nowMs % everyMs));
  return rest > everyMs / 2 ? rest : rest + everyMs;
}

interface SourceOptions extends Pick<PollOptions<never>, 'clock' | 'onProblem'> {
  readonly onTrigger: (trigger: Trigger) => void;
}
