import * as z from 'zod/mini';
import {
  type DeviceErrorKind,
  type DeviceError,
  type DeviceState,
  isBehind,
  type DeviceSettings,
  type CreateDriver,
  type DriverContext,
  type LoadBalancerDriver,
  type Progress,
  type Owned,
} from '../../devices/driver.ts';
import { toPrintableLine, quoteWords, shorten } from '../../lib/text.ts';
import { findErrorCode, VipnatError } from '../../lib/errors.ts';
import type { DeviceReport } from '../cache/known.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ObjectClient } from '../../lib/kubernetes/writes.ts';
import type { LoadBalancerDevice } from '../../lib/api/device.ts';
import type { TokenQueue } from '../../lib/queue.ts';
import { objectVersion, type NamespacedName } from '../../lib/kubernetes/client.ts';
import { formerFinalizer } from '../../lib/api/vipnat.ts';

/** What a device's condition says: reasons are published (docs/services-reference.md). */
const kindToReason: Readonly<Record<DeviceErrorKind, Pick<Failure, 'reason'>>> = {
  unreachable: { reason: 'Unreachable' },
  unauthorized: { reason: 'Unauthorized' },
  'no-active-unit': { reason: 'NoActiveUnit' },
  'role-changed': { reason: 'RoleChanged' },
  'foreign-changes': { reason: 'ForeignChanges' },
  refused: { reason: 'Refused' },
  nonsense: { reason: 'AnswerUnexpected' },
};

/** What went wrong, for a condition. */
export interface Failure {
  readonly reason: string;
  readonly message: string;
}

/** Of whatever was thrown. */
export function describeFailure(error: unknown): Failure {
  const text = toPrintableLine(error instanceof Error ? error.message : String(error));
  const message = text.replace(/\.$/, '');
  const { name, kind } = Object(error) as Partial<DeviceError>;
  // A driver from outside of vipnat has a class of its own.
  if (name === 'DeviceError' && kind !== undefined && Object.hasOwn(kindToReason, kind))
    return { ...kindToReason[kind], message };
  if (error instanceof SecretMissingError) return { reason: 'SecretMissing', message };
  const code = findErrorCode(error);
  if (code === 'DEVICE_SETTINGS_INVALID' || code === 'DRIVER_NOT_LOADED')
    return { reason: 'SettingsInvalid', message };
  if (code === 'API_FORBIDDEN' || code === 'API_UNREACHABLE') return { reason: 'CredentialsUnread', message };
  return { reason: 'Failed', message };
}

/** What of a report the device itself says. */
export type DeviceStatus = Pick<DeviceReport, 'units' | 'foreignChanges' | 'isReady' | 'reason' | 'message'>;

/** What a list has of other clusters of the same name, for a condition; null for nothing. */
export function describeOthers(
  owned: readonly Owned[],
  { metadata, spec }: LoadBalancerDevice,
): Failure | null {
  const others = owned.filter(({ otherCluster }) => otherCluster !== undefined);
  const [first] = others;
  if (first === undefined) return null;
  const { namespace, name } = first.balancer.id;
  const what = `Another cluster writes on the device under the name ${spec.cluster}: the uid of its namespace kube-system begins with ${first.otherCluster}.`;
  const which = `It has ${others.length} Services there, such as ${namespace}/${name}. vipnat leaves them as they are.`;
  const remedy = `In one of both clusters, make another LoadBalancerDevice than ${metadata.name}: with a spec.cluster of its own. Give it the Services. If that cluster is gone, delete there what it has.`;
  return { reason: 'ClusterNameTaken', message: toPrintableLine(`${what} ${which} ${remedy}`) };
}

/** A status has so many of them. */
const maxForeign = 10;

/** The definition takes so many characters. */
const maxText = 1024;

/** How a device does that answers. `unread`: why its credentials could not be read again; `shared`: that another cluster has its name. */
export function describeState(
  state: DeviceState,
  unread: Failure | null,
  shared: Failure | null,
): DeviceStatus {
  const deviceStatus = describeUnits(state);
  if (!deviceStatus.isReady) return deviceStatus;
  if (unread !== null) {
    const message = `The device works with the credentials that vipnat read before. A controller that starts now has none: ${unread.message}.`;
    return { ...deviceStatus, reason: 'CredentialsUnread', message };
  }
  if (shared === null) return deviceStatus;
  return { ...deviceStatus, ...shared, message: `${deviceStatus.message} ${shared.message}` };
}

function describeUnits({ units, foreignChanges: all }: DeviceState): DeviceStatus {
  const reported = units.map(({ unit, role, isInSync, why }) => ({
    ...{ unit, role, isInSync },
    why: toPrintableLine(why).slice(0, maxText),
  }));
  const active = units.filter(({ role }) => role === 'active').map(({ unit }) => unit);
  const foreignChanges = all.slice(0, maxForeign).map((text) => toPrintableLine(text).slice(0, maxText));
  const seen = { units: reported, foreignChanges };
  if (all.length > 0) {
    const changes = shorten(all.map(toPrintableLine));
    const message = `Another user has changed the device, and has not applied it: ${changes}. vipnat changes nothing until then.`;
    return { ...seen, isReady: false, reason: 'ForeignChanges', message };
  }
  if (active.length !== 1) {
    const who =
      active.length === 0 ? 'No unit is active.' : `More than one unit is active: ${active.join(', ')}.`;
    return { ...seen, isReady: false, reason: 'NoActiveUnit', message: who };
  }
  const [first = ''] = active;
  const behind = reported.filter(isBehind);
  if (behind.length === 0)
    return { ...seen, isReady: true, reason: 'Ready', message: `The unit ${first} is active.` };
  // Some drivers name the unit themselves.
  const clauses = behind.map(({ unit, role, why }) => {
    const usual = role === 'unresponsive' ? 'it does not answer' : 'it does not have what the active one has';
    return why.startsWith(unit) ? why : `${unit} (${why || usual})`;
  });
  const message = `The unit ${first} is active. It has no other that could follow it: ${shorten(clauses)}.`;
  return { ...seen, isReady: true, reason: 'NotInSync', message };
}

/** Units of a device, as a check found them after another one. */
export interface SeenUnits {
  /** The one that was active last; null for none yet. */
  readonly active: string | null;
  /** Those that answer, and do not say that they have everything. */
  readonly lacking: readonly string[];
  /** The active one says that it lacks something. */
  readonly isEmpty: boolean;
  /** Another unit is active, which may have missed changes; or one lacks something that did not before. */
  readonly isNewlyBehind: boolean;
}

/** As a check has found them. */
export function readUnits(units: DeviceState['units'], before: SeenUnits | null): SeenUnits {
  const answering = units.filter(({ role }) => role === 'active' || role === 'standby');
  const lacking = answering.filter(({ isInSync }) => isInSync !== true).map(({ unit }) => unit);
  const { unit, isInSync = null } = answering.find(({ role }) => role === 'active') ?? {};
  const active = unit ?? before?.active ?? null;
  const isOther = (before?.active ?? active) !== active;
  const isNewlyBehind = isOther || lacking.some((each) => before?.lacking.includes(each) === false);
  return { active, lacking, isEmpty: isInSync === false, isNewlyBehind };
}

/** What takes long continues as long as the device answers; what hangs for longer ends. */
const timeoutMs = 120_000;

/** Ends what waits for a device that has not been asked anything for two minutes. */
export function limitUnresponsive(
  clock: Clock,
  getCalledMs: () => number,
  aborting: AbortController,
): Readonly<{ isOver: boolean; cancel: () => void }> {
  const beginMs = clock.now();
  const limit = { isOver: false, cancel: (): void => undefined };
  const watch = (): void => {
    const leftMs = timeoutMs - (clock.now() - Math.max(beginMs, getCalledMs()));
    limit.isOver = leftMs <= 0;
    if (limit.isOver) aborting.abort();
    else limit.cancel = clock.schedule(leftMs, watch);
  };
  watch();
  return limit;
}

/** So long after its signal a call may take to end. */
const graceMs = 5000;

/** Takes the password out of texts and errors, also as a header or a URL has it. One of three characters or less is in too many words. */
function hideCredentials({ credentials }: Credentials) {
  const { username = '', password = '' } = credentials ?? {};
  const header = Buffer.from(`${username}:${password}`).toString('base64');
  const forms = password.length < 4 ? [] : [header, encodeURIComponent(password), password];
  const hide = (text = '') => forms.reduce((all, form) => all.replaceAll(form, '***'), text);
  const hideIn = (error: unknown): unknown => {
    const { name, kind, message = String(error) } = Object(error) as Partial<DeviceError>;
    return hide(message) === message ? error : Object.assign(new Error(hide(message)), { name, kind });
  };
  return { hide, hideIn };
}

/** Ends soon after the signal, whatever the call does. */
async function settle<Answer>(
  signal: AbortSignal,
  clock: Clock,
  call: () => Promise<Answer>,
): Promise<Answer> {
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  let cancel: () => void = () => undefined;
  const end = () => {
    cancel = clock.schedule(graceMs, () => {
      reject(new Error('a call of its driver does not end'));
    });
  };
  signal.addEventListener('abort', end, { once: true });
  try {
    return await Promise.race([call(), promise]);
  } finally {
    signal.removeEventListener('abort', end);
    cancel();
  }
}

/** A driver from elsewhere may forget signals, put the password into texts, and not say when to ask again. */
function guard(create: () => LoadBalancerDriver, credentials: Credentials, clock: Clock): LoadBalancerDriver {
  const { hide, hideIn } = hideCredentials(credentials);
  const read = async <Answer>(signal: AbortSignal, call: () => Promise<Answer>): Promise<Answer> => {
    try {
      return await settle(signal, clock, call);
    } catch (error) {
      throw hideIn(error);
    }
  };
  async function change(signal: AbortSignal, call: () => Promise<Progress>): Promise<Progress> {
    const progress = await read(signal, call);
    if (progress.result === 'done') return progress;
    const why = hide(progress.why);
    if (progress.result !== 'running') return { ...progress, why };
    return { ...progress, why, retryInMs: Number.isFinite(progress.retryInMs) ? progress.retryInMs : 1000 };
  }
  let driver: LoadBalancerDriver;
  try {
    driver = create();
  } catch (error) {
    throw hideIn(error);
  }
  const { confirm } = driver;
  return {
    get capabilities() {
      return driver.capabilities;
    },
    list: (signal) => read(signal, () => driver.list(signal)),
    plan: (wanted, signal) => read(signal, () => driver.plan(wanted, signal)),
    ensure: (wanted, signal) => change(signal, () => driver.ensure(wanted, signal)),
    remove: (id, signal) => change(signal, () => driver.remove(id, signal)),
    confirm: confirm && ((all, signal) => change(signal, () => confirm.call(driver, all, signal))),
    readState: async (signal) => {
      const { units, foreignChanges } = await read(signal, () => driver.readState(signal));
      const shown = units.map((unit) => ({ ...unit, why: hide(unit.why) }));
      return { units: shown, foreignChanges: foreignChanges.map(hide) };
    },
  };
}

/** What a device asks of vipnat, and what signs its certificates: of one Secret, or of none. Never printed. */
type Credentials = Pick<DeviceSettings, 'credentials' | 'ca'>;

/** The Secret of a device is not there. */
class SecretMissingError extends VipnatError {}

const schema = z.object({ data: z.nullish(z.record(z.string(), z.string())) });

const readMs = 4000;

/** @throws SecretMissingError; VipnatError DEVICE_SETTINGS_INVALID, API_FORBIDDEN or API_UNREACHABLE */
async function readCredentials(
  client: ObjectClient,
  namespace: string,
  { spec: { credentialsSecret } }: LoadBalancerDevice,
): Promise<Credentials> {
  if (credentialsSecret == null) return { credentials: null, ca: null };
  const { name } = credentialsSecret;
  const what = `the Secret ${namespace}/${name}`;
  const path = `/api/v1/namespaces/${namespace}/secrets/${encodeURIComponent(name)}`;
  const answer = await client.read({ title: `reading ${what}`, path, schema }, readMs);
  if (answer.outcome === 'gone')
    throw new SecretMissingError(
      'DEVICE_SETTINGS_INVALID',
      `there is no Secret ${namespace}/${name}. Create it`,
    );
  if (answer.outcome === 'forbidden') {
    const create = (...detail: readonly string[]) =>
      quoteWords(['kubectl', 'create', ...detail, '-n', namespace]);
    const role = create('role', name, '--verb=get', '--resource=secrets', `--resource-name=${name}`);
    const account = `--serviceaccount=${namespace}:vipnat-controller`;
    const binding = create('rolebinding', name, `--role=${name}`, account);
    throw new VipnatError('API_FORBIDDEN', `vipnat may not read ${what}. Run: ${role} && ${binding}`);
  }
  if (answer.outcome === 'unreachable') throw new VipnatError('API_UNREACHABLE', answer.detail);
  return parseCredentials(answer.object.data ?? {}, what);
}

function parseCredentials(data: Readonly<Record<string, string>>, what: string): Credentials {
  // `kubectl create secret --from-file` keeps the line feed at the end of a file.
  const read = (key: string) =>
    data[key] === undefined
      ? null
      : Buffer.from(data[key], 'base64')
          .toString()
          .replace(/\r?\n$/, '');
  const [username, password, ca] = [read('username'), read('password'), read('ca.crt')];
  if (username !== null && password !== null) return { credentials: { username, password }, ca };
  if (username === null && password === null) return { credentials: null, ca };
  throw invalid(`${what} needs both keys, username and password`);
}

function invalid(message: string): VipnatError {
  return new VipnatError('DEVICE_SETTINGS_INVALID', message);
}

/** What another controller of devices has put on the Endpoints of a Service: its finalizer, which keeps a deleted Service's Endpoints. */
const endpointsSchema = z.object({
  metadata: z.object({ resourceVersion: objectVersion, finalizers: z.nullish(z.array(z.string())) }),
});

/**
 * Takes it off, where it is on the Service, too. The namespace is vipnat's own. Answers whether it is off now: false where somebody else wrote
 * the Endpoints meanwhile.
 * @throws VipnatError API_FORBIDDEN, with the remedy, or API_UNREACHABLE
 */
export async function dropFormerFinalizer(
  client: ObjectClient,
  { namespace, name, finalizers: known }: NamespacedName & Pick<LoadBalancerDevice['metadata'], 'finalizers'>,
  { writeMs, namespace: own }: { readonly writeMs: () => number; readonly namespace: string },
): Promise<boolean> {
  if (!isMarked(known)) return false;
  const what = `the Endpoints ${namespace}/${name}`;
  const path = `/api/v1/namespaces/${namespace}/endpoints/${name}`;
  const answer = await client.read({ title: `reading ${what}`, path, schema: endpointsSchema }, readMs);
  if (answer.outcome === 'gone') return true;
  if (answer.outcome !== 'found') throw toError(answer.outcome, answer.detail, own);
  const { resourceVersion, finalizers } = answer.object.metadata;
  if (!isMarked(finalizers)) return true;
  const limitMs = writeMs();
  if (limitMs === 0) return false;
  const body = {
    metadata: { resourceVersion, finalizers: finalizers.filter((each) => each !== formerFinalizer) },
  };
  const title = `taking the finalizer ${formerFinalizer} off ${what}`;
  const { outcome, detail } = await client.write({ title, method: 'PATCH', path, body }, limitMs);
  if (outcome === 'taken' || outcome === 'gone') return true;
  if (outcome === 'conflict') return false;
  throw toError(outcome, detail, own);
}

function isMarked(finalizers: readonly string[] | null | undefined): finalizers is readonly string[] {
  return finalizers?.includes(formerFinalizer) === true;
}

function toError(outcome: string, detail: string, own: string): VipnatError {
  if (outcome !== 'forbidden' && outcome !== 'refused') return new VipnatError('API_UNREACHABLE', detail);
  const role = 'kubectl create clusterrole vipnat-takes-over --verb=get,patch --resource=endpoints';
  const binding = `kubectl create clusterrolebinding vipnat-takes-over --clusterrole=vipnat-takes-over --serviceaccount=${own}:vipnat-controller`;
  return new VipnatError('API_FORBIDDEN', `${detail}. Run: ${role} && ${binding}`);
}

/** How a driver is found by its name. Rejects with VipnatError DRIVER_NOT_LOADED where there is none of that name, or it cannot be loaded. */
export type FindDriver = (name: string) => Promise<CreateDriver>;

/** What opening takes. */
export interface SessionOptions extends Pick<DeviceSettings, 'identity'> {
  readonly clock: Clock;
  readonly client: ObjectClient;
  /** Where Secrets are. */
  readonly namespace: string;
  readonly findDriver: FindDriver;
  /** How long a write may take that begins now; 0 for one that may not begin. */
  readonly writeMs: () => number;
  /** How fast requests go out. */
  readonly pace: TokenQueue;
  /** A request goes to a unit. */
  readonly onCall: () => void;
  /** An older device of the same units and cluster, by its name: their objects are the same. Null for none. */
  readonly conflict: string | null;
}

/** This process leads no more: nothing was sent. */
export class NotLeadingError extends Error {
  override readonly name = 'NotLeadingError';
}

/** One device's driver with its credentials: opened when it is needed, and again when the Secret has changed. */
export class DeviceSession {
  readonly #device: LoadBalancerDevice;
  readonly #options: SessionOptions;
  #driver: LoadBalancerDriver | null = null;
  #opening: Promise<LoadBalancerDriver> | null = null;
  #credentials: Credentials | null = null;

  constructor(device: LoadBalancerDevice, options: SessionOptions) {
    this.#device = device;
    this.#options = options;
  }

  /** @throws VipnatError where there is none, or what it needs cannot be read */
  async open(): Promise<LoadBalancerDriver> {
    if (this.#driver !== null) return this.#driver;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = null;
    });
    return await this.#opening;
  }

  /** How many changes the driver takes at the same time; 1 before it is open. */
  get changesAtOnce(): number {
    return this.#driver?.capabilities.changesAtOnce ?? 1;
  }

  /** Reads the credentials again, uses them, and answers whether they are others: nobody may use the driver meanwhile. @throws as `open` */
  async renew(): Promise<boolean> {
    const { client, namespace } = this.#options;
    const credentials = await readCredentials(client, namespace, this.#device);
    const areOther = JSON.stringify(credentials) !== JSON.stringify(this.#credentials);
    if (areOther) this.#driver = null;
    return areOther;
  }

  async #open(): Promise<LoadBalancerDriver> {
    const { client, namespace, clock, findDriver, pace, writeMs, onCall, conflict, identity } = this.#options;
    const { metadata, spec } = this.#device;
    if (conflict !== null)
      throw invalid(
        `the LoadBalancerDevice ${conflict} has a unit of ${metadata.name} and the same spec.cluster. Use another cluster or other units`,
      );
    const { driver, cluster, units, options } = spec;
    this.#credentials = await readCredentials(client, namespace, this.#device);
    const create = await findDriver(driver);
    const own = { name: metadata.name, cluster, identity, units, options: options ?? {} };
    const settings = { ...own, ...this.#credentials };
    const context: DriverContext = {
      clock,
      beforeCall: async () => {
        await pace.take();
        if (writeMs() === 0) throw new NotLeadingError('this controller does not lead');
        onCall();
      },
    };
    this.#driver = guard(() => create(settings, context), settings, clock);
    return this.#driver;
  }
}
