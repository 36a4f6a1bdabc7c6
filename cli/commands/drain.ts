import { systemClock } from '../../lib/control/clock.ts';
import { Pause } from '../../lib/control/pause.ts';
import { parseEndpoint } from '../../lib/address/endpoint.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { readInterfaces } from '../../lib/kernel/host/interfaces.ts';
import { createDrainRule } from '../../lib/kernel/real/drain-rule.ts';
import { createDrainStore, type DrainStore } from '../../agent/endpoints/drain-store.ts';
import { type Health, type HealthView } from '../../agent/health/usable.ts';
import { askAgentDrain, type DrainState } from '../../agent/http/agent-drain.ts';
import { askAgentHealth } from '../../agent/http/agent-health.ts';
import { formatDrain, formatUndrain } from '../format/screens/drain.ts';
import { type CommandContext, defineCommand, type Words } from '../command/command.ts';
import { type OptionsOf, toggle } from '../flags/flag.ts';
import { nameNode } from '../wiring/node-name.ts';

/** One look at a busy host, and a write. */
const patienceMs = 15_000;
const pauseMs = 100;

const dryRun = toggle('print what it would change, and change nothing');
const flags = { dryRun, force: toggle('also if no other apiserver takes new connections') };

/** The node that is meant; null for this host. */
const words: Words<{ readonly node: string | null }> = {
  count: () => 1,
  read: ([node]) => ({ node: node ?? null }),
};

type UndrainContext = CommandContext<OptionsOf<{ dryRun: typeof dryRun }> & { readonly node: string | null }>;
type DrainContext = UndrainContext & CommandContext<OptionsOf<typeof flags>>;

const shared = {
  usage: '[NODE] [options]',
  words,
  heeds: ['nodeName', 'stateDir', 'runDir', 'logLevel'],
} as const;

/** `vipnat drain`. */
export const drain = defineCommand({
  ...shared,
  help: `
Examples:
  vipnat drain                       before maintenance of this master
  vipnat drain --dry-run             what drain would change

The apiserver of this host gets no new connections, and open ones continue. The virtual
IPs move to another master. Agents see it within two seconds. It lasts until vipnat
undrain, also over a restart of the agent and of the host. Run it on the master itself.
Exit status: 0 drained, 1 failed or refused, 78 bad configuration.`,
  flags,
  run: drainHost,
});

/** `vipnat undrain`. */
export const undrain = defineCommand({
  ...shared,
  help: `
Examples:
  vipnat undrain                     after maintenance of this master
  vipnat undrain --dry-run           what undrain would change

The apiserver of this host gets new connections again, once it has given three good
answers. The virtual IPs stay where they are.
Exit status: 0 no longer drained, 1 failed, 78 bad configuration.`,
  flags: { dryRun },
  run: undrainHost,
});

/**
 * Writes into the state folder that this host is drained, and waits until its agent keeps it so.
 * @throws VipnatError DRAIN_REFUSED, STATE_NOT_WRITTEN, or what the agent says
 */
async function drainHost({ config, options, stdout, stderr }: DrainContext): Promise<number> {
  checkNode(nameNode(config), options.node, 'drain');
  const store = createDrainStore(config.stateDir);
  const [state, health] = await Promise.all([askAgentDrain(), askAgentHealth()]);
  if (state === null || health === null) {
    throw refuse('no agent that can drain runs on this host. Start it first: the agent keeps the drain');
  }
  const { local, others } = splitHealth(health);
  if (state.since === null && !options.force && others.length === 0) {
    throw refuse(
      'no apiserver on another host is ready, so clients would have none left. Repair one first (vipnat status), or add --force',
    );
  }
  if (options.dryRun) {
    stdout(formatDrain({ location: store.location, runDir: config.runDir, ports: local }));
    return exitStatuses.done;
  }
  const since = state.since ?? (await begin(store));
  await waitForAgent(store.location, isDrained);
  stderr(`${nameNode(config)} is drained since ${since.toISOString()}\n`);
  stderr(
    'within a few seconds its apiserver gets no new connections from the virtual IPs. Open ones continue\n',
  );
  stderr('after maintenance: vipnat undrain\n');
  return exitStatuses.done;
}

/**
 * Takes it back. Without an agent it removes the rule itself.
 * @throws VipnatError DRAIN_REFUSED, STATE_NOT_WRITTEN, or what the agent or nft says
 */
async function undrainHost({ config, options, stdout, stderr }: UndrainContext): Promise<number> {
  checkNode(nameNode(config), options.node, 'undrain');
  const store = createDrainStore(config.stateDir);
  if (options.dryRun) {
    stdout(formatUndrain(store.location));
    return exitStatuses.done;
  }
  const wasDrained = (await store.load()) !== null;
  await store.save(null);
  if ((await askAgentDrain()) === null) await createDrainRule().write([]);
  else await waitForAgent(store.location, (now) => now.since === null);
  stderr(
    wasDrained
      ? `${nameNode(config)} is no longer drained. Its apiserver gets new connections after three good answers\n`
      : `${nameNode(config)} was not drained\n`,
  );
  return exitStatuses.done;
}

const isDrained = ({ since }: DrainState) => since !== null;

/** Writes the file. What the agent does not read must not drain an agent that starts later: then the file is removed again. */
async function begin(store: DrainStore): Promise<Date> {
  const since = systemClock.date();
  await store.save(since);
  const last = await askUntil(isDrained);
  if (last === null || isDrained(last)) return since;
  await store.save(null);
  throw refuse(explainUnread(store.location, last));
}

/** What would be drained is this host. */
function checkNode(here: string, node: string | null, command: string): void {
  if (node === null || node === here) return;
  throw refuse(
    `this host is ${here}, and ${command} changes only the host that it runs on. Run vipnat ${command} on ${node}`,
  );
}

function refuse(why: string): VipnatError {
  return new VipnatError('DRAIN_REFUSED', why);
}

/** The ports of this host's apiservers, and those of others that take new connections. */
function splitHealth(health: HealthView): { readonly local: number[]; readonly others: string[] } {
  const addresses = new Set(readInterfaces().map(({ address }) => address));
  const isLocal = (text: string) => addresses.has(parseEndpoint(text)?.address ?? '');
  const ports = [...health.keys()].filter(isLocal).flatMap((text) => parseEndpoint(text)?.port ?? []);
  const isTaking = ({ state, isSilent = false }: Health) => state === 'ready' && !isSilent;
  return {
    local: [...new Set(ports)],
    others: [...health].filter(([text, one]) => !isLocal(text) && isTaking(one)).map(([text]) => text),
  };
}

/** Until the agent has read the file and has done what follows. */
async function waitForAgent(location: string, isRead: (state: DrainState) => boolean): Promise<void> {
  const last = await askUntil((state) => isRead(state) && state.isKept);
  if (last === null) throw refuse('the agent ended meanwhile. It reads the change when it starts');
  if (!isRead(last)) throw refuse(explainUnread(location, last));
  if (last.isKept) return;
  throw refuse(
    last.problem === null
      ? 'the agent has read the change, but has not changed its rule yet. vipnat status tells how it is'
      : `the agent has read the change, but could not change its rule, and tries again: ${last.problem}`,
  );
}

function explainUnread(location: string, { problem }: DrainState): string {
  return problem === null
    ? `the agent does not read ${location}. If it has another --state-dir, repeat the command with that option`
    : `the agent failed: ${problem}`;
}

/** What the agent says last: as soon as it is as wanted, or when patience ends; null where no agent answers then. */
async function askUntil(isWanted: (state: DrainState) => boolean): Promise<DrainState | null> {
  const until = systemClock.now() + patienceMs;
  const pause = new Pause(systemClock);
  for (;;) {
    const state = await askAgentDrain();
    if ((state !== null && isWanted(state)) || systemClock.now() >= until) return state;
    await pause.wait(pauseMs);
  }
}
