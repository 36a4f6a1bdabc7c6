import {
  type HttpsConnections,
  type HttpsServer,
  openHttps,
  type HttpsCall,
  type HttpsAnswer,
  callHttps,
  HttpsError,
} from '../../lib/http/client.ts';
import {
  type DeviceSettings,
  type DriverContext,
  DeviceError,
  checkSettings,
  type Refuse,
  refuseSettings,
  refuseSameUnits,
  refuseUnknown,
} from '../driver.ts';
import { sleep } from '../../lib/clock.ts';
import { readJson, toPrintableLine } from '../../lib/text.ts';
import {
  tableIds,
  type Rows,
  makeRows,
  tables,
  readColumn,
  readKey,
  readFields,
  type Step,
} from './tables.ts';
import type { UnitRole, PairUnit } from '../pair.ts';

/** Settings of an Alteon, read and found to be meant. */
export interface AlteonSettings extends Pick<DeviceSettings, 'cluster' | 'identity'> {
  readonly units: readonly AlteonAddress[];
  readonly options: AlteonOptions;
}

interface AlteonAddress {
  /** As it was given. */
  readonly unit: string;
  readonly server: HttpsServer;
}

/** The driver's own options. */
export interface AlteonOptions {
  /** Which property of the unit has its role: that of its high availability by switch, or that of VRRP. */
  readonly role: 'haSwitchInfoState' | 'vrrpInfoHAState';
  /** How many rows of a table one question asks for: without a number a unit answers with few. */
  readonly listSize: number;
  /** Which address clients' connections get before they reach a member: see `proxyIpModes`; null leaves it as the unit has it. */
  readonly proxyIpMode: number | null;
}

/** Source: Alteon's MIB, slbNewCfgEnhVirtServiceProxyIpMode. The modes that need no further value. */
const proxyIpModes = new Map(Object.entries({ ingress: 0, egress: 1, disable: 4 }));

/** As other clients ask: goalteon, DefaultCount. */
const usualListSize = 9000;

/** @throws VipnatError DEVICE_SETTINGS_INVALID where settings cannot be meant. */
export function readSettings(settings: DeviceSettings): AlteonSettings {
  const { cluster, identity, units, ca } = settings;
  const credentials = checkSettings(settings);
  const refuse = refuseSettings(settings);
  refuseSameUnits(refuse, units);
  if (credentials.username.includes(':')) throw refuse('its user name has a colon');
  return {
    ...{ cluster, identity },
    units: units.map((unit) => ({ unit, server: { ...readUnit(refuse, unit), ca, credentials } })),
    options: readOptions(refuse, settings),
  };
}

function readUnit(refuse: Refuse, unit: string): Pick<HttpsServer, 'host' | 'port'> {
  const url = URL.parse(unit.includes('://') ? unit : `https://${unit}`);
  const isPlain =
    url?.protocol === 'https:' && url.username === '' && url.search === '' && url.pathname === '/';
  if (!isPlain || url.hash !== '' || url.hostname === '')
    throw refuse(`unit ${JSON.stringify(unit)} is neither HOST:PORT nor a URL such as https://10.0.0.5`);
  return { host: url.hostname.replaceAll(/^\[|\]$/g, ''), port: url.port === '' ? 443 : Number(url.port) };
}

function readOptions(refuse: Refuse, { options }: DeviceSettings): AlteonOptions {
  const { role = 'haSwitchInfoState', listSize, proxyIpMode, ...others } = options;
  refuseUnknown(refuse, others, 'role, listSize and proxyIpMode');
  if (role !== 'haSwitchInfoState' && role !== 'vrrpInfoHAState')
    throw refuse(`option role is haSwitchInfoState or vrrpInfoHAState, not ${JSON.stringify(role)}`);
  return { role, listSize: readListSize(refuse, listSize), proxyIpMode: readMode(refuse, proxyIpMode) };
}

function readListSize(refuse: Refuse, text: string | undefined): number {
  const size = text === undefined ? usualListSize : Number(text);
  if (Number.isInteger(size) && size >= 1 && size <= usualListSize) return size;
  throw refuse(`option listSize is a number from 1 to ${usualListSize}, not ${JSON.stringify(text)}`);
}

function readMode(refuse: Refuse, text: string | undefined): number | null {
  if (text === undefined) return null;
  const mode = proxyIpModes.get(text);
  if (mode !== undefined) return mode;
  const known = [...proxyIpModes.keys()].join(', ');
  throw refuse(`option proxyIpMode is one of ${known}, not ${JSON.stringify(text)}`);
}

/** A unit at work answers within milliseconds; one that applies much is busy for seconds. */
const limitMs = 20_000;

/** The longest table of the largest unit, with room. */
const maxBytes = 64 * 1024 * 1024;

/** A unit answers so now and then, and not a moment later (goalteon, client.go). How often it is asked: it may lock an account after few 401. */
const statusToTries: Readonly<Record<number, number>> = { 401: 2, 406: 5 };
const retryMs = 350;

/** What a unit prints is quoted as far as it says what is wrong. */
const maxQuoted = 300;

type JsonObject = Readonly<Record<string, unknown>>;

/** Opens nothing yet. What it answers is a unit for as long as a signal lets it be asked: its connections are the same each time. */
export function openUnit(
  { unit, server }: AlteonAddress,
  context: DriverContext,
  options: AlteonOptions,
): (signal: AbortSignal) => AlteonUnit {
  const connections = openHttps(server);
  return (signal) => new AlteonUnit({ unit, connections, context, options, signal });
}

interface UnitParts {
  readonly unit: string;
  readonly connections: HttpsConnections;
  readonly context: DriverContext;
  readonly options: AlteonOptions;
  readonly signal: AbortSignal;
}

/** What a unit prints as one line for people, with an end. */
function quote(text: string): string {
  const line = toPrintableLine(text);
  return line.length > maxQuoted ? `${line.slice(0, maxQuoted)}…` : line;
}

/** A unit prints line feeds and tabs in strings as they are, which is no JSON. Source: goalteon, common.go. */
function parseObject(text: string): JsonObject | null {
  const value = readJson(text.replaceAll(/[\r\n\t]/g, ' '));
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as JsonObject) : null;
}

/** What a unit says of its configuration. */
export interface AlteonStatus {
  /** Something waits to be applied, whoever wrote it. */
  readonly isPending: boolean;
  /** Something is in force that a restart forgets. */
  readonly isUnsaved: boolean;
  /** It applies or saves right now. */
  readonly isBusy: boolean;
  /** Whether the other unit has what this one has; null where this one does not say. */
  readonly isInSync: boolean | null;
  /** Why the other unit has not; empty where this one does not say. */
  readonly syncProblem: string;
}

/** What waits to be applied, or what is in force. */
export type Configuration = 'New' | 'Cur';

/** Other clients ask as often: goalteon, ApplySaveSync. */
const pollMs = 200;

/** Longer than units take for what a Service changes. What takes longer is looked at in the next call. */
const pollLimitMs = 30_000;

/** Source: the MIB, agApplyPending, agSavePending, agApplyConfig and agSaveConfig, agSyncStatus, agSyncNeeded. */
const applyNeeded = 2;
const saveNeeded = 1;
const inProgress = 3;
const failed = 5;
const syncFailed = 3;
const syncSucceeded = 2;
const syncNeeded = 1;
const syncNotNeeded = 2;

const statusProperties = [
  ...['agApplyPending', 'agSavePending', 'agApplyConfig', 'agSaveConfig'],
  ...['agSyncStatus', 'agSyncNeeded', 'agLastSyncErrorReason'],
].join(',');

/** What is done at the end of a change, and which properties have its progress and its problem. */
const actions = {
  apply: { property: 'agApplyConfig', problems: 'AgApplyTable' },
  save: { property: 'agSaveConfig', problems: 'AgSaveTable' },
} as const;

/** Source: the MIB, haSwitchInfoState and vrrpInfoHAState; some versions print a number. */
const textToRole = new Map(
  Object.entries({ master: 'active', 2: 'active', backup: 'standby', 3: 'standby' } as const),
);

/** One unit, in the words of its tables. All methods reject with a DeviceError that names it, with what `beforeCall` throws, or at its signal. */
export class AlteonUnit implements PairUnit {
  readonly unit: string;
  readonly #parts: UnitParts;

  constructor(parts: UnitParts) {
    this.unit = parts.unit;
    this.#parts = parts;
  }

  async readRole(): Promise<UnitRole> {
    const property = this.#parts.options.role;
    const answer = await this.#get(`/config/${property}`);
    const role = textToRole.get(readColumn(answer, property).toLowerCase());
    if (role !== undefined) return { role, why: '' };
    const words = quote(JSON.stringify(answer[property] ?? null));
    return { role: 'unknown', why: `it says that it is ${words}` };
  }

  async readStatus(): Promise<AlteonStatus> {
    const answer = await this.#get(`/config?prop=${statusProperties}`);
    const { agLastSyncErrorReason: problem } = answer;
    const is = (property: string, value: number) => readNumber(answer, property) === value;
    const isBehind = is('agSyncNeeded', syncNeeded) || is('agSyncStatus', syncFailed);
    const isInSync = is('agSyncNeeded', syncNotNeeded) || is('agSyncStatus', syncSucceeded);
    return {
      isPending: is('agApplyPending', applyNeeded),
      isUnsaved: is('agSavePending', saveNeeded),
      isBusy: is('agApplyConfig', inProgress) || is('agSaveConfig', inProgress),
      isInSync: isBehind ? false : isInSync ? true : null,
      syncProblem: is('agSyncStatus', syncFailed) && typeof problem === 'string' ? quote(problem) : '',
    };
  }

  /** Waits until it applies and saves nothing. */
  async awaitRest(): Promise<AlteonStatus> {
    const startMs = this.#parts.context.clock.now();
    for (;;) {
      const status = await this.readStatus();
      if (!status.isBusy || this.#parts.context.clock.now() - startMs >= pollLimitMs) return status;
      await sleep(this.#parts.context.clock, pollMs);
    }
  }

  /** The rows of these tables whose names begin so. */
  async readRows(configuration: Configuration, prefix: string, ids = tableIds): Promise<Rows> {
    const rows = makeRows();
    for (const id of ids) {
      const { name, keys, columns } = tables[id];
      const table = `Slb${configuration}Cfg${name}`;
      for (const row of await this.#readTable(table, [...keys, ...Object.keys(columns)])) {
        const key = readKey(id, row);
        if (key?.startsWith(prefix) === true) rows[id].set(key, readFields(id, row));
      }
    }
    return rows;
  }

  /** By `GROUP/SERVER`: the state in which members work, of the groups whose names begin so. */
  async readMemberStates(prefix: string): Promise<ReadonlyMap<string, number>> {
    const keys = ['RealServGroupIndex', 'ServIndex'];
    return await this.#readNumbers(['SlbOperEnhGroupRealServerTable', ...keys], 'Status', prefix);
  }

  /** By name: the open connections of the real servers whose names begin so. */
  async readSessions(prefix: string): Promise<ReadonlyMap<string, number>> {
    return await this.#readNumbers(['SlbStatEnhRServerTable', 'Index'], 'CurrSessions', prefix);
  }

  /** What differs between what waits and what is in force, or between what is in force and what is saved, in the unit's commands. */
  async readDifference(from: 'getdiff' | 'getdiffflash'): Promise<readonly string[]> {
    const path = `/config/${from}`;
    const text = await this.#ask('GET', path);
    this.#parse(path, text.startsWith('{') ? text : '');
    return text.split(/\r?\n/).filter((line) => line.trim() !== '');
  }

  /** Changes something. An answer that says nothing is a good one. */
  async write({ method, path, body }: Pick<Step, 'method' | 'path' | 'body'>): Promise<void> {
    const text = await this.#ask(method, path, body === null ? null : JSON.stringify(body));
    this.#parse(path, text);
  }

  /** In effect immediately, and until the unit starts again. Source: the MIB, slbOperEnhGroupRealServerState. */
  async setMemberState(key: string, State: number): Promise<void> {
    const path = key.split('/').map(encodeURIComponent).join('/');
    const table = '/config/SlbOperEnhGroupRealServerTable';
    await this.write({ method: 'PUT', path: `${table}/${path}`, body: { State } });
  }

  /** Puts into force what waits, or saves what is in force. @throws DeviceError refused, with the unit's words, where it fails. */
  async act(action: keyof typeof actions): Promise<'done' | 'running'> {
    const { property, problems } = actions[action];
    await this.write({ method: 'POST', path: `/config?action=${action}`, body: null });
    const startMs = this.#parts.context.clock.now();
    for (;;) {
      const state = readNumber(await this.#get(`/config?prop=${property}`), property);
      if (state === failed) {
        const words = await this.#readTable(problems, ['Index', 'StringVal']);
        const why = quote(words.map((row) => readColumn(row, 'StringVal')).join(' '));
        throw new DeviceError('refused', `${this.unit} does not ${action} it${why === '' ? '' : `: ${why}`}`);
      }
      if (state !== inProgress) return 'done';
      if (this.#parts.context.clock.now() - startMs >= pollLimitMs) return 'running';
      await sleep(this.#parts.context.clock, pollMs);
    }
  }

  /** Starts to bring the other unit up to date. What comes of it, `readStatus` says. */
  async startSync(): Promise<void> {
    await this.write({ method: 'POST', path: '/config?action=sync', body: null });
  }

  /** By the columns of a table's key: the numbers in a column, of the keys that begin so. */
  async #readNumbers(of: readonly string[], column: string, prefix: string) {
    const [table = '', ...keys] = of;
    const rows = await this.#readTable(table, [...keys, column]);
    const all = rows.map(
      (row) => [keys.map((key) => readColumn(row, key)).join('/'), readNumber(row, column)] as const,
    );
    return new Map(all.filter(([key]) => key.startsWith(prefix)));
  }

  async #readTable(table: string, columns: readonly string[]): Promise<readonly JsonObject[]> {
    const { listSize } = this.#parts.options;
    const found: JsonObject[] = [];
    for (;;) {
      const offset = found.length === 0 ? '' : `&offset=${found.length}`;
      const path = `/config/${table}?count=${listSize}${offset}&props=${columns.join(',')}`;
      const { [table]: page = [] } = await this.#get(path);
      if (!Array.isArray(page))
        throw new DeviceError('nonsense', `${this.unit} answers ${path} with no table`);
      found.push(...(page as readonly JsonObject[]));
      if (page.length < listSize) return found;
    }
  }

  async #get(path: string): Promise<JsonObject> {
    const answer = this.#parse(path, await this.#ask('GET', path));
    if (answer === null) throw new DeviceError('nonsense', `${this.unit} answers GET ${path} without JSON`);
    return answer;
  }

  async #ask(method: HttpsCall['method'], path: string, body: string | null = null): Promise<string> {
    const { connections, signal, context } = this.#parts;
    const { clock, beforeCall } = context;
    const call = { connections, method, path, body, limitMs, maxBytes, clock, signal };
    for (let tries = 1; ; tries += 1) {
      await beforeCall(`${method} ${path} at ${this.unit}`);
      const { status, text } = await this.#call(call);
      if (status >= 200 && status < 300) return text;
      if (tries >= (statusToTries[status] ?? 1)) throw this.#refuse(method, path, { status, text });
      await sleep(clock, retryMs);
    }
  }

  async #call(call: HttpsCall): Promise<HttpsAnswer> {
    try {
      return await callHttps(call);
    } catch (error) {
      if (!(error instanceof HttpsError)) throw error;
      const kind = error.reason === 'too-long' ? 'nonsense' : 'unreachable';
      throw new DeviceError(kind, `${this.unit} does not answer: ${error.message}`, { cause: error });
    }
  }

  #refuse(method: string, path: string, { status, text }: HttpsAnswer): DeviceError {
    if (status === 401) return new DeviceError('unauthorized', `${this.unit} does not take the credentials`);
    const why = `${this.unit} answers ${method} ${path} with ${status}${this.#explain(text)}`;
    return new DeviceError(classifyStatus(status), why);
  }

  /** A unit says that it cannot do something with a good status, too. */
  #parse(path: string, text: string): JsonObject | null {
    const answer = parseObject(text);
    if (text.trim() !== '' && answer === null)
      throw new DeviceError('nonsense', `${this.unit} answers ${path} with what is not JSON: ${quote(text)}`);
    const status = answer?.['status'];
    if (status !== 'err' && status !== 'error') return answer;
    throw new DeviceError('refused', `${this.unit} refuses ${path}${this.#explain(text)}`);
  }

  #explain(text: string): string {
    const { message, testErr } = parseObject(text) ?? {};
    const words = [message, testErr].filter((field) => typeof field === 'string' && field !== '');
    return words.length === 0 ? '' : `: ${quote(words.join(' '))}`;
  }
}

/** What a bad status says: of a unit that asks for less (429), or of a proxy before it, nothing is known of the change itself. */
export function classifyStatus(status: number): 'refused' | 'unreachable' {
  return [429, 502, 503, 504].includes(status) ? 'unreachable' : 'refused';
}

/** Some versions print numbers as texts. */
function readNumber(row: JsonObject, column: string): number {
  const text = readColumn(row, column);
  return text === '' ? Number.NaN : Number(text);
}
