import { VipnatError, describeCause, orElse } from '../lib/errors.ts';
import type { LastingState, ReconcileState } from './decide/decision.ts';
import {
  type Endpoint,
  type Family,
  families,
  mapFamilies,
  formatEndpoint,
  parseEndpoint,
  classifyAddress,
} from '../lib/net.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/telemetry/log.ts';
import { isDeepStrictEqual } from 'node:util';
import { join, dirname } from 'node:path';
import { replaceFile, readIfThere, orThrow } from '../lib/files.ts';
import { type FileHandle, stat } from 'node:fs/promises';
import type { Stats } from 'node:fs';
import * as z from 'zod/mini';
import {
  type CandidateInput,
  maxEndpoints,
  rememberEndpoints,
  rememberPrevious,
  findLiveSources,
  admit,
  listInstalled,
} from './endpoints.ts';
import { createHash } from 'node:crypto';
import type { Observation } from './observe/observe.ts';
import type { ServiceState } from './observe/kube-proxy.ts';
import { type Sourced, readJson } from '../lib/text.ts';

/** A full disk is not tried at every sync. */
const retryMs = 60_000;

/** Nor is what was saved read at every sync. */
const checkMs = 60_000;

interface PersisterOptions {
  /** What the store holds already. */
  readonly saved: LastingState;
  readonly logger: Logger;
  /** Counts that saving failed, for the first time in a row. */
  readonly metrics: { failure(problem: VipnatError): void };
}

/** The state that an agent starts with: what the agent before it has saved. */
export async function recallApiservers(
  store: EndpointStore,
  onProblem: (problem: VipnatError) => void,
): Promise<LastingState> {
  try {
    const saved = await store.load();
    if (saved === null) return nothingKnown;
    const { endpoints, former = [], savedAt } = saved;
    const seenIn = `${store.location} of ${savedAt.slice(0, 16).replace('T', ' ')}`;
    return {
      endpoints: groupByFamily(endpoints, (value) => ({ value, seenIn })),
      previousEndpoints: groupByFamily(former, (value) => value),
    };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    onProblem(error);
    return nothingKnown;
  }
}

const nothingKnown: LastingState = { endpoints: {}, previousEndpoints: {} };

/** Families without any are left out. */
function groupByFamily<T>(endpoints: readonly Endpoint[], render: (endpoints: readonly Endpoint[]) => T) {
  return mapFamilies((family) => {
    const found = endpoints.filter((one) => one.family === family);
    return found.length === 0 ? undefined : render(found);
  });
}

/** Saves the apiservers whenever they have changed, and when what was saved is no longer there. */
export class EndpointPersister {
  readonly #store: EndpointStore;
  readonly #clock: Clock;
  readonly #options: PersisterOptions;
  #saved: Saved;
  #isFailing = false;
  #nextTry = -Infinity;
  #nextCheck: number;
  #saving: Promise<void> | null = null;

  constructor(store: EndpointStore, clock: Clock, options: PersisterOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#options = options;
    this.#saved = toSaved(options.saved);
    this.#nextCheck = clock.now() + checkMs;
  }

  /** Whether the last attempt succeeded, if there was one. */
  get isSaved(): boolean {
    return !this.#isFailing;
  }

  /** To be called after every sync. Returns immediately; a family of which nothing is known any more stays as it was. */
  keep(known: LastingState): void {
    const wanted = toSaved(known);
    if (wanted.endpoints.length === 0 || this.#saving !== null) return;
    const isSaved = areSame(wanted, this.#saved);
    if (this.#clock.now() < (isSaved ? this.#nextCheck : this.#nextTry)) return;
    const work = isSaved ? this.#check() : this.#save(wanted);
    this.#saving = work.finally(() => (this.#saving = null));
  }

  /** Ends when nothing is being written. */
  async settle(): Promise<void> {
    await this.#saving;
  }

  async #check(): Promise<void> {
    this.#nextCheck = this.#clock.now() + checkMs;
    const saved = await orElse(this.#store.load(), null);
    if (saved !== null && areSame(saved, this.#saved)) {
      this.#recover();
      return;
    }
    if (!this.#isFailing)
      this.#options.logger.warn(
        `another program removed or changed ${this.#store.location}. vipnat writes the file again`,
      );
    await this.#save(this.#saved);
  }

  async #save(wanted: Saved): Promise<void> {
    try {
      await this.#store.save({ savedAt: this.#clock.date().toISOString(), ...wanted });
      this.#saved = wanted;
      this.#recover();
    } catch (error) {
      if (!(error instanceof VipnatError)) throw error;
      if (!this.#isFailing) {
        this.#options.logger.warn(error.message, { code: error.code });
        this.#options.metrics.failure(error);
      }
      this.#isFailing = true;
      this.#nextTry = this.#clock.now() + retryMs;
    }
  }

  #recover(): void {
    if (this.#isFailing) this.#options.logger.info(`vipnat can write ${this.#store.location} again`);
    this.#isFailing = false;
  }
}

/** What is saved, but for the time. */
type Saved = Pick<SavedEndpoints, 'endpoints' | 'former'>;

function toSaved({ endpoints, previousEndpoints }: LastingState): Saved {
  const before = families.flatMap((family) => previousEndpoints[family] ?? []);
  return {
    endpoints: families.flatMap((family) => endpoints[family]?.value ?? []),
    ...(before.length === 0 ? {} : { former: before }),
  };
}

function areSame(left: Saved, right: Saved): boolean {
  const [a, b] = [left, right].map(({ endpoints, former = [] }) => [
    endpoints.map(formatEndpoint),
    former.map(formatEndpoint),
  ]);
  return isDeepStrictEqual(a, b);
}

/** Where the apiservers that were last known outlive the agent, and the host's reboot. */
export interface EndpointStore {
  /** Where it is, for people. */
  readonly location: string;
  /**
   * What was saved last, or null when nothing ever was.
   * @throws VipnatError STATE_UNREADABLE when it cannot be read, or does not hold what was saved.
   */
  load(): Promise<SavedEndpoints | null>;
  /**
   * Replaces what was saved, whole or not at all. One at a time.
   * @throws VipnatError STATE_NOT_WRITTEN when it could not be; what was saved before stays.
   */
  save(saved: SavedEndpoints): Promise<void>;
}

/** A state file of vipnat's has a few hundred bytes. */
const maxBytes = 65_536;

/** A store in a folder, which is made when something is saved. */
export function createEndpointStore(folder: string): EndpointStore {
  const location = join(folder, 'endpoints.json');
  return {
    location,
    async load() {
      const text = await readText(location);
      if (text === null) return null;
      const saved = parseEndpointFile(text);
      if (typeof saved === 'string') throw unreadable(`${location} ${saved}`);
      return saved;
    },
    save: (saved) => {
      const next = 'vipnat continues, but after a reboot it cannot read the apiservers from this file';
      const work = replaceFile(location, formatEndpointFile(saved));
      return orThrow(work, 'STATE_NOT_WRITTEN', (why) => `writing ${location} failed (${why}). ${next}`);
    },
  };
}

/** The file can become rules when no other source lists apiservers, so one that another user could write is refused. */
async function readText(location: string): Promise<string | null> {
  try {
    const check = (file: FileHandle) => checkWriters(file, location);
    return await readIfThere(location, { maxBytes, refusesLink: true, check });
  } catch (error) {
    if (error instanceof VipnatError) throw error;
    const code = describeCause(error);
    throw unreadable(`${location} ${codeToPhrase[code] ?? `cannot be read (${code})`}`, error);
  }
}

const codeToPhrase: Readonly<Record<string, string>> = {
  ELOOP: 'is a link, which vipnat does not follow',
  'no file': 'is not a regular file',
  'too large': 'is too large for a file of vipnat',
};

async function checkWriters(file: FileHandle, location: string): Promise<void> {
  const problem =
    describeWriters('it', await file.stat()) ?? describeWriters('its folder', await stat(dirname(location)));
  if (problem !== null) throw unreadable(`any user may have written ${location}, because ${problem}`);
}

/** The bits of group and others that may write. */
const othersWrite = 0o022;

function describeWriters(name: string, { uid, mode }: Stats): string | null {
  if (uid !== 0 && uid !== process.getuid?.()) return `${name} belongs to user ${uid}`;
  if ((mode & othersWrite) === 0) return null;
  return `${name} has mode 0${(mode & 0o7777).toString(8)}`;
}

function unreadable(what: string, cause?: unknown): VipnatError {
  const next = 'vipnat ignores this file, and replaces it when it knows the apiservers';
  return new VipnatError('STATE_UNREADABLE', `${what}. ${next}`, { cause });
}

/**
 * The text of the file in which an agent keeps the apiservers that it last knew.
 *
 * Goal: after a reboot with no API and no kube-proxy the VIP is balanced, over apiservers that were real.
 * Tension: whatever the file says becomes a rule in the kernel, and it may be torn, edited, or from another program.
 * Compromise: a checksum over all of it. What does not hold is named and ignored as a whole.
 */

/** What the file holds. */
export interface SavedEndpoints {
  /** When it was written, as in ISO 8601. */
  readonly savedAt: string;
  /** Of all families, at least one, each an address that one host can hold. */
  readonly endpoints: readonly Endpoint[];
  /** Previous apiservers of all families, the latest first; none when left out. */
  readonly former?: readonly Endpoint[];
}

/** Raised when a reader of the version before would be wrong. */
const version = 1 as const;

const schema = z.strictObject({
  version: z.literal(version),
  savedAt: z.iso.datetime(),
  endpoints: z.array(z.string()).check(z.minLength(1), z.maxLength(maxEndpoints)),
  former: z.optional(z.array(z.string()).check(z.maxLength(maxEndpoints))),
  checksum: z.string(),
});

/** One line of JSON, with its end. */
export function formatEndpointFile({ savedAt, endpoints, former }: SavedEndpoints): string {
  const texts = { endpoints: endpoints.map(formatEndpoint), former: former?.map(formatEndpoint) };
  const content = { version, savedAt, ...texts };
  return `${JSON.stringify({ ...content, checksum: toChecksum(content) })}\n`;
}

/** Reads such a text; answers a phrase instead that says what is wrong with it, for after the file's name. Total. */
export function parseEndpointFile(text: string): SavedEndpoints | string {
  if (text === '') return 'is empty';
  const json = readJson(text);
  if (json === undefined || !text.endsWith('\n')) return 'is cut off, or is not a file of vipnat';
  if (isNewer(json)) return `is from a newer vipnat (version ${json.version})`;
  const result = schema.safeParse(json);
  if (!result.success) return 'is not a file of vipnat';
  const { checksum, ...content } = result.data;
  if (checksum !== toChecksum(content)) return 'is damaged or was edited: its checksum does not match';
  const { savedAt, endpoints, former } = content;
  const odd = [...endpoints, ...(former ?? [])].find((named) => toUsable(named) === null);
  if (odd !== undefined) return `names ${JSON.stringify(odd)}, which cannot be the address of an apiserver`;
  return { savedAt, endpoints: toEndpoints(endpoints), ...(former && { former: toEndpoints(former) }) };
}

function toEndpoints(texts: readonly string[]): Endpoint[] {
  return texts.map(toUsable).filter((endpoint) => endpoint !== null);
}

function isNewer(json: unknown): json is { readonly version: number } {
  const { version: found } = Object(json) as { readonly version?: unknown };
  return typeof found === 'number' && found > version;
}

function toUsable(text: string): Endpoint | null {
  const endpoint = parseEndpoint(text);
  if (endpoint === null) return null;
  return classifyAddress({ family: endpoint.family, text: endpoint.address }) === 'unicast' ? endpoint : null;
}

function toChecksum(content: Omit<z.output<typeof schema>, 'checksum'>): string {
  const { version, savedAt, endpoints, former } = content;
  const text = JSON.stringify({ version, savedAt, endpoints, former });
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}

/** What a sync leaves in memory of the apiservers that it found. Pure. */
export function rememberApiservers(
  seen: CandidateInput,
): Pick<ServiceState, 'endpoints' | 'previousEndpoints' | 'proxyOnly'> {
  const { memory } = seen;
  const endpoints = mapFamilies((family) => {
    const remembered = memory.endpoints[family] ?? null;
    // vipnat's rules shrink with every apiserver that dies: what they name is kept as it was first seen.
    const known = findNamed(family, seen) ?? (remembered === null ? findOwn(family, seen) : null);
    return rememberEndpoints(remembered, known) ?? undefined;
  });
  const previousEndpoints = mapFamilies((family) => {
    const [before, after] = [memory.endpoints[family]?.value ?? [], endpoints[family]?.value ?? []];
    return rememberPrevious(memory.previousEndpoints[family] ?? [], before, after);
  });
  return { endpoints, previousEndpoints, proxyOnly: rememberProxy(seen) };
}

/** A memory without those who were taken from the lists on purpose: they are no fallback (docs/design.md). Pure. */
export function forgetRemoved(memory: ReconcileState, removed: ReadonlySet<string>): ReconcileState {
  if (removed.size === 0) return memory;
  const isKept = (endpoint: Endpoint) => !removed.has(formatEndpoint(endpoint));
  const previousEndpoints = mapFamilies((family) => (memory.previousEndpoints[family] ?? []).filter(isKept));
  return { ...memory, previousEndpoints };
}

/**
 * A memory without the Service's own virtual server, as soon as that is seen: while it was gone, vipnat's rules that lead to
 * it read like those to one apiserver, see `findInstalled`. Pure.
 */
export function forgetService(memory: ReconcileState, { views }: Pick<Observation, 'views'>): ReconcileState {
  const service = families.flatMap((family) => views[family].ipvs.server?.value ?? []);
  const isOther = ({ address, port }: Endpoint) =>
    !service.some((one) => one.clusterIp === address && one.port === port);
  const { endpoints, former = [] } = toSaved(memory);
  if ([...endpoints, ...former].every(isOther)) return memory;
  return {
    ...memory,
    endpoints: mapFamilies((family) => {
      const known = memory.endpoints[family];
      return known && { ...known, value: known.value.filter(isOther) };
    }),
    previousEndpoints: mapFamilies((family) => memory.previousEndpoints[family]?.filter(isOther)),
  };
}

/** The apiservers that somebody else names now: the API, kube-proxy or `--endpoints`. Null when nobody names any. */
function findNamed(family: Family, seen: CandidateInput): Sourced<readonly Endpoint[]> | null {
  const { config } = seen;
  const { api, kubeProxy } = findLiveSources(family, seen);
  const admitted = [api, kubeProxy, { value: config.endpoints, seenIn: '--endpoints' }]
    .filter((source) => source !== null)
    .map((source) => ({ ...source, value: admit(source, family, config.vips).admitted }));
  return admitted.find(({ value }) => value.length > 0) ?? null;
}

/** Where vipnat's rules are the memory of an agent that is gone and left no other. */
function findOwn(family: Family, { observation, config }: CandidateInput): Sourced<readonly Endpoint[]> {
  const source = { value: listInstalled(family, observation, config.vips), seenIn: "vipnat's own rules" };
  return { ...source, value: admit(source, family, config.vips).admitted };
}

/** Only while the API answers: what kube-proxy learns afterwards is newer. */
function rememberProxy(seen: CandidateInput): ServiceState['proxyOnly'] {
  if (seen.memory.api?.isCurrent !== true) return seen.memory.proxyOnly;
  return mapFamilies((family) => findLiveSources(family, seen).kubeProxy?.value ?? []);
}
