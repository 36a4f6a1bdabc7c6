import * as z from 'zod/mini';
import { vrrpStates } from '../lib/keepalived/write.ts';
import { askLockOwner, agentRole, line, type OwnerInfo, readOwnerInfo } from '../lib/http/singleton.ts';
import { parseAddress, type Endpoint, parseEndpoint, formatEndpoint } from '../lib/net.ts';
import { maxAffinitySeconds, type ApiView } from './api.ts';
import type { ReconcileState } from './decide/decision.ts';
import { healthStates } from './health/judge.ts';
import type { HealthView, Health } from './health/usable.ts';
import { type ConfigReading, type ConfigSources, readConfig, toArguments, toTexts } from '../config/load.ts';
import { readAgentSettings, type Config, type OptionName, optionNames } from '../config/options.ts';
import { quoteWords } from '../lib/text.ts';
import { findListeningSocket } from '../lib/kernel/host.ts';

/** Where the agent of this network namespace answers commands. Each question at `/drain` makes it read its state folder again. */
export type AnswerPath = '/activity' | '/api' | '/drain' | '/health' | '/options';

/** Null where no agent runs, or none answers, or what answers is something else. */
async function ask<T>(path: AnswerPath, schema: z.ZodMiniType<T>): Promise<T | null> {
  return schema.safeParse(await askLockOwner(agentRole, path)).data ?? null;
}

/** As an agent of any version gives it. */
export const activityAnswer = z.object({
  writes: z.number(),
  syncedMsAgo: z.nullable(z.number()),
  apiservers: z.record(z.string(), z.object({ forMs: z.number() })),
  /** Absent in an older agent's answer. */
  keepalived: z.optional(z.record(z.string(), z.object({ state: z.enum(vrrpStates), forMs: z.number() }))),
});

/** What a running agent does: its writes, its last sync, how long each apiserver has been in its state, and keepalived's instances. */
export type AgentActivity = z.infer<typeof activityAnswer>;

/** What the running agent has been doing; null when none runs or none answers. */
export async function askAgentActivity(): Promise<AgentActivity | null> {
  return await ask('/activity', activityAnswer);
}

/** Answers are checked, because they become rules and any process may hold the agent's socket name. */
const endpoint = z
  .object({ family: z.enum(['ipv4', 'ipv6']), address: z.string(), port: z.number() })
  .check(z.refine(isEndpoint));
const address = z.string().check(z.refine((text) => parseAddress(text)?.text === text));
const finding = z.object({ value: z.array(endpoint), seenIn: line });
const clusterIps = z
  .partialRecord(z.enum(['ipv4', 'ipv6']), address)
  .check(
    z.refine((found) =>
      Object.entries(found).every(([family, text]) => parseAddress(text)?.family === family),
    ),
  );
const seconds = z.int().check(z.minimum(1), z.maximum(maxAffinitySeconds));

/** The answer of `/api`. */
export const apiAnswer = z.object({
  /** Agents of older versions do not report it. */
  proxyOnly: z._default(z.partialRecord(z.enum(['ipv4', 'ipv6']), z.array(endpoint)), {}),
  view: z.nullable(
    z.object({
      endpoints: z.partialRecord(z.enum(['ipv4', 'ipv6']), finding),
      clusterIps,
      affinitySeconds: z.nullable(seconds),
      refused: z.array(line),
      isCurrent: z.boolean(),
    }),
  ),
});

/** What the API has said to an agent, and what that holds it against while the API is lost. */
export interface ApiSnapshot extends Pick<ReconcileState, 'proxyOnly'> {
  readonly view: ApiView | null;
}

/** What the API has said to the running agent, so that what is shown is what is done; null without one. */
export async function askAgentApi(): Promise<ApiSnapshot | null> {
  return await ask('/api', apiAnswer);
}

function isEndpoint(given: Endpoint): boolean {
  const read = parseEndpoint(formatEndpoint(given));
  return read !== null && read.family === given.family && read.address === given.address;
}

const date = z.nullable(
  z.pipe(
    z.iso.datetime(),
    z.transform((text) => new Date(text)),
  ),
);
const drainAnswer = z.object({
  since: date,
  /** Since when the virtual IPs may stay here, as no other host took one; null while they are to leave. */
  vipStaysSince: z._default(date, null),
  /** Whether the kernel, and the file that keepalived tracks, hold what follows from that. */
  isKept: z.boolean(),
  /** Why the drain cannot be read or the rule not written, or null. */
  problem: z.nullable(line),
  /** Why that file could not be written, so that the virtual IPs do not move; or null. */
  vipProblem: z._default(z.nullable(line), null),
});

/** How it is about the drain of this host. */
export type DrainState = Readonly<z.infer<typeof drainAnswer>>;

/** What the running agent knows of its host's drain; null when none runs, or one of a version before drains. */
export async function askAgentDrain(): Promise<DrainState | null> {
  return await ask('/drain', drainAnswer);
}

const apiserver = z.object({
  state: z.enum(healthStates),
  reason: line,
  hanging: z.enum(['none', 'half-open', 'all']),
  unconfirmed: z.optional(line),
  livenessOnly: z.optional(line),
  isUnheard: z.optional(z.boolean()),
  isOwn: z.optional(z.boolean()),
  isDrained: z.optional(z.boolean()),
  isUntried: z.optional(z.boolean()),
});

/** What the agent answers at `/health`: an object from each apiserver's `ADDR:PORT` to its health. */
export function toHealthAnswer(health: HealthView): object {
  return Object.fromEntries([...health].map(([text, one]) => [text, toAnswer(one)]));
}

/** How the running agent finds the apiservers, so that what is shown is what is done; null when none runs or none answers. */
export async function askAgentHealth(): Promise<HealthView | null> {
  return await ask('/health', healthAnswer);
}

/** What is made of it. */
export const healthAnswer = z.pipe(
  z.record(z.string(), apiserver),
  z.transform((all): HealthView => new Map(Object.entries(all).map(([text, one]) => [text, toHealth(one)]))),
);

/** The keys are those that agents of every version report. */
function toAnswer({ staleConnections: hanging, ...health }: Health): z.infer<typeof apiserver> {
  const { unconfirmedFailure: unconfirmed, isUnresponsive: isUnheard, ...same } = health;
  return { ...same, hanging, unconfirmed, isUnheard };
}

function toHealth({ hanging, unconfirmed, isUnheard, ...same }: z.infer<typeof apiserver>): Health {
  return { ...same, staleConnections: hanging, unconfirmedFailure: unconfirmed, isUnresponsive: isUnheard };
}

interface DiagnosticReading {
  readonly reading: ConfigReading;
  /** Lines without a newline, for standard error. */
  readonly notes: readonly string[];
  /** Why the agent's configuration was not taken, as text that follows `no virtual IP given, and`; null where it was. */
  readonly reason: string | null;
}

/** What a diagnostic makes of some of the agent's virtual IPs: `host` checks all that the agent has, `given` at these. */
export type Scope = 'host' | 'given';

/**
 * Reads the configuration for a diagnostic: what nobody gives is what the running agent has. With the scope `host`,
 * virtual IPs that are all the agent's stand for its whole list: rules of its others are no difference.
 */
export async function readDiagnosticConfig(
  sources: ConfigSources,
  scope: Scope,
  ask: () => Promise<OptionsAnswer> = askAgentOptions,
): Promise<DiagnosticReading> {
  const answer = await ask();
  const agent = answer.kind === 'details' ? readAgentSettings(answer.options) : null;
  if (answer.kind !== 'details' || agent === null)
    return { reading: await readConfig(sources), notes: [], reason: reasons[answer.kind] };
  const nothing = { flags: {}, environment: {}, file: undefined };
  const [narrow, theirs, defaults] = await Promise.all([
    readConfig({ ...sources, agent }),
    readConfig({ ...nothing, agent }),
    readConfig(nothing),
  ]);
  const whole = scope === 'host' ? await readWhole({ ...sources, agent }, narrow, theirs.config) : null;
  const reading = whole ?? narrow;
  const special = sharedNames.filter((name) => hasOther(name, theirs.config, defaults.config));
  const source = `the running agent (pid ${answer.agent.pid}) has ${describe(theirs.config, special)}`;
  return {
    // Remedies repeat what makes this configuration, whoever gave it.
    reading: { ...reading, given: new Set([...reading.given, ...special]) },
    notes: [
      ...(narrow.given.has('vip') ? [] : [source]),
      ...(reading.config.vips.length > narrow.config.vips.length
        ? [`${source}, and all its virtual IPs are taken`]
        : []),
      ...describeDifferences(reading, theirs.config),
    ],
    reason: null,
  };
}

/** The same with all virtual IPs of the agent; null where one that is given is not the agent's, or the others do not fit. */
async function readWhole(sources: ConfigSources, { config, given, problems }: ConfigReading, theirs: Config) {
  const all = theirs.vips.map(formatEndpoint);
  const isTheirs = config.vips.every((vip) => all.includes(formatEndpoint(vip)));
  if (!given.has('vip') || problems.length > 0 || !isTheirs) return null;
  const whole = await readConfig({ ...sources, flags: { ...sources.flags, vip: all } });
  return whole.problems.length === 0 ? whole : null;
}

const reasons: Readonly<Record<OptionsAnswer['kind'], string>> = {
  nobody: 'no agent runs here',
  untrusted: "the agent here may not be root's, so this command does not ask it",
  unresponsive: 'the agent here does not report its own',
  details: 'the agent here has options that this version does not know',
};

function describeDifferences({ config, given }: ConfigReading, theirs: Config): string[] {
  return sharedNames
    .filter((name) => given.has(name) && hasOther(name, config, theirs))
    .map((name) => {
      const other = describe(theirs, [name]);
      return `${describe(config, [name])} is taken, but the running agent has ${other === '' ? 'none' : other}`;
    });
}

function hasOther(name: OptionName, left: Config, right: Config): boolean {
  return describe(left, [name]) !== describe(right, [name]);
}

function describe(config: Config, names: readonly OptionName[]): string {
  return quoteWords(toArguments(config, new Set(names)));
}

/** Options of the process itself, and those that name credentials: no other command needs them. */
const privateNames: readonly OptionName[] = ['kubeconfig', 'listen', 'logLevel', 'logFormat'];

/** The options that an agent reports. */
const sharedNames = optionNames.filter((name) => !privateNames.includes(name));

/** No option has more values, and no value is longer. */
const maxValues = 1000;
const maxLength = 4096;

const texts = z.array(z.string().check(z.maxLength(maxLength))).check(z.maxLength(maxValues));
/** The answer of `/options`. */
export const optionsAnswer = z.object({ options: z.record(z.string(), texts) });

/** Option to its values, each as its flag takes it. What they mean is not checked yet. */
export type AgentOptions = Readonly<Record<string, readonly string[]>>;

/** What the agent answers at `/options`: no secret, and no path to one. */
export function toOptionsAnswer(config: Config): { readonly options: AgentOptions } {
  return { options: Object.fromEntries(sharedNames.map((name) => [name, toTexts(config, name)])) };
}

/** What came of asking for the agent's configuration. */
type OptionsAnswer =
  | { readonly kind: 'details'; readonly options: AgentOptions; readonly agent: OwnerInfo }
  | { readonly kind: 'nobody' }
  /** Neither root nor this user holds the agent's name, or the kernel does not say who: anything could be answered. */
  | { readonly kind: 'untrusted' }
  /** An older agent, or one that does not answer in time. */
  | { readonly kind: 'unresponsive' };

/**
 * The configuration of the agent of this network namespace. What is planned by it can be pasted as root, so it is asked
 * only where root, or this user, holds the agent's name. The kernel says who does, before and after the answer.
 */
async function askAgentOptions(): Promise<OptionsAnswer> {
  const before = await findListeningSocket(agentRole.socketName).catch(() => undefined);
  if (before === null) return { kind: 'nobody' };
  if (before === undefined || !isTrusted(before.userId)) return { kind: 'untrusted' };
  const agent = readOwnerInfo(await askLockOwner(agentRole, '/'));
  const { options = null } = (await ask('/options', optionsAnswer)) ?? {};
  const after = await findListeningSocket(agentRole.socketName).catch(() => null);
  if (after?.inode !== before.inode || agent === null || options === null) return { kind: 'unresponsive' };
  return { kind: 'details', options, agent };
}

function isTrusted(userId: number | null): boolean {
  return userId === 0 || (userId !== null && userId === process.geteuid?.());
}
