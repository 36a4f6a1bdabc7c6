import {
  type Check,
  type Need,
  Bench,
  describeError,
  quoteSome,
  type Subject,
  findUnmet,
  CheckFailed,
  type ConformanceTarget,
  type Reached,
  type TargetActions,
  maxFailures,
  retryMs,
} from './bench.ts';
import { type Sites, testClusters } from './shapes.ts';
import {
  type Balancer,
  type BalancerId,
  type Capabilities,
  type Listener,
  type Member,
  type Owned,
  type Progress,
  formatMark,
  formatMember,
} from '../driver.ts';
import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net';
import { once } from 'node:events';
import { VipnatError } from '../../lib/errors.ts';

/** What became of a check. */
export type CheckResult = Pick<Check, 'name' | 'title'> &
  (
    | { readonly outcome: 'passed' }
    | { readonly outcome: 'failed'; readonly why: string }
    | { readonly outcome: 'not run'; readonly needs: readonly Need[] }
  );

/** What the suite found. */
export interface ConformanceReport {
  readonly capabilities: Capabilities;
  /** Of each check that was asked for; with `interruption`, of those before it. */
  readonly results: readonly CheckResult[];
  /** Why it ended before its last check; null where it did not. */
  readonly interruption: string | null;
}

/** How the suite runs. */
export interface ConformanceOptions {
  readonly checks: readonly Check[];
  /** Ends it soon: what it made is removed all the same. */
  readonly signal: AbortSignal;
  /** Ends the removal, too. */
  readonly lastSignal: AbortSignal;
  /** Whether balancers of an earlier run are removed first. */
  readonly takesLeftovers: boolean;
  readonly onResult: (result: CheckResult) => void;
}

/** Runs the checks in turn, and removes what each made. @throws VipnatError DEVICE_IN_USE for balancers of the test's clusters, or DEVICE_FAILED */
export async function runConformance(
  target: ConformanceTarget,
  options: ConformanceOptions,
): Promise<ConformanceReport> {
  const { signal, lastSignal } = options;
  // For its capabilities alone.
  const { capabilities } = target.open(testClusters[0], { clock: target.clock, beforeCall: () => undefined });
  const cleaner = new Bench(target, capabilities, lastSignal);
  await takeDevice(cleaner, options);
  const results: CheckResult[] = [];
  const add = (result: CheckResult) => {
    results.push(result);
    options.onResult(result);
  };
  for (const check of options.checks) {
    const { name, title } = check;
    const bench = new Bench(connectClients(target, signal), capabilities, signal);
    const needs = findUnmet(check.needs, bench);
    if (needs.length > 0) {
      add({ name, title, outcome: 'not run', needs });
      continue;
    }
    const why = await tryCheck(check, bench);
    const problem = await clean(cleaner);
    if (signal.aborted) return { capabilities, results, interruption: problem ?? 'it was interrupted' };
    const reason = why ?? problem;
    add({ name, title, ...(reason === null ? { outcome: 'passed' } : { outcome: 'failed', why: reason }) });
    if (problem !== null) return { capabilities, results, interruption: problem };
  }
  return { capabilities, results, interruption: null };
}

async function takeDevice(cleaner: Bench, { takesLeftovers }: ConformanceOptions): Promise<void> {
  const left = await listAll(cleaner, (subject) => subject.list()).catch((error: unknown) => {
    const what = `cannot list the balancers of the device: ${describeError(error)}`;
    throw new VipnatError('DEVICE_FAILED', what, { cause: error });
  });
  const names = left.flatMap(([, owned]) => owned.map(({ balancer: { id } }) => `${id.cluster}/${id.name}`));
  if (names.length === 0) return;
  if (!takesLeftovers)
    throw new VipnatError(
      'DEVICE_IN_USE',
      `the device has balancers of the conformance suite: ${quoteSome(names)}. If no other run uses the device, add --remove-leftovers`,
    );
  const problem = await clean(cleaner);
  if (problem !== null) throw new VipnatError('DEVICE_FAILED', problem);
}

async function listAll(
  cleaner: Bench,
  list: (subject: Subject) => Promise<readonly Owned[]>,
): Promise<readonly (readonly [Subject, readonly Owned[]])[]> {
  const found: (readonly [Subject, readonly Owned[]])[] = [];
  for (const cluster of testClusters) {
    const subject = cleaner.open({ cluster });
    found.push([subject, await list(subject)]);
  }
  return found;
}

/** What the next check would start with: null where that is nothing. */
async function clean(cleaner: Bench): Promise<string | null> {
  try {
    const listAgain = (subject: Subject) => listPatiently(subject, cleaner);
    for (const [subject, owned] of await listAll(cleaner, listAgain))
      for (const { balancer } of owned) await subject.settleRemoval(balancer.id);
    const left = (await listAll(cleaner, listAgain)).flatMap(([, owned]) => owned);
    if (left.length === 0) return null;
    return `remove is done, and list still has ${quoteSome(left.map(({ balancer }) => balancer.id.name))}`;
  } catch (error) {
    return `the suite cannot remove its balancers: ${describeError(error)}`;
  }
}

/** Why it failed; null where it passed. */
async function tryCheck(check: Check, bench: Bench): Promise<string | null> {
  try {
    await check.run(bench, bench.shapes);
    return null;
  } catch (error) {
    return error instanceof CheckFailed ? error.message : `an error: ${describeError(error)}`;
  }
}

/** A read may fail now and then: what a check has made does not stay there for that. */
async function listPatiently(subject: Subject, { clock }: Bench): Promise<readonly Owned[]> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await subject.list();
    } catch (error) {
      if (!(error instanceof CheckFailed) || tries === maxFailures) throw error;
      await new Promise<void>((resolve) => clock.schedule(retryMs, resolve));
    }
  }
}

/** A listener at one address. */
interface Place {
  readonly balancer: Balancer;
  readonly listener: Listener;
  /** For people. */
  readonly name: string;
}

/** Where the target has clients, they connect as soon as a change is done: what they find fails it. */
function connectClients(target: ConformanceTarget, signal: AbortSignal): ConformanceTarget {
  const reach = target.actions?.connect;
  if (reach === undefined) return target;
  // By marks and identities: what another cluster of the name removes stays.
  const keyToPlaces = new Map<string, readonly Place[]>();
  const change = async (key: string, places: readonly Place[], call: Promise<Progress>) => {
    const progress = await call;
    if (progress.result !== 'done') return progress;
    const former = keyToPlaces.get(key) ?? [];
    keyToPlaces.set(key, places);
    const gone = former.filter(({ name }) => places.every((place) => place.name !== name));
    const empty = gone.map((place) => ({ ...place, listener: { ...place.listener, members: [] } }));
    for (const place of [...places, ...empty])
      await expectMembers(place, () => reach(place.balancer, place.listener, signal));
    return progress;
  };
  return {
    ...target,
    open: (cluster, context, identity) => {
      const driver = target.open(cluster, context, identity);
      const toKey = (id: BalancerId) => [formatMark(id), identity].join(' ');
      return {
        capabilities: driver.capabilities,
        list: (ofCall) => driver.list(ofCall),
        plan: (wanted, ofCall) => driver.plan(wanted, ofCall),
        ensure: (wanted, ofCall) =>
          change(toKey(wanted.id), listPlaces(wanted), driver.ensure(wanted, ofCall)),
        remove: (id, ofCall) => change(toKey(id), [], driver.remove(id, ofCall)),
        readState: (ofCall) => driver.readState(ofCall),
      };
    },
  };
}

/** Of TCP alone. */
function listPlaces(balancer: Balancer): Place[] {
  const { id, addresses, listeners } = balancer;
  const ofTcp = listeners.filter(({ protocol }) => protocol === 'tcp');
  return addresses.flatMap((address) =>
    ofTcp.map((listener) => ({
      ...{ balancer: { ...balancer, addresses: [address] }, listener },
      name: `tcp/${listener.port} of ${id.namespace}/${id.name} at ${address.text}`,
    })),
  );
}

/** Enough to tell that a member gets none, or its share. */
const connections = 20;

/** Each connection reaches a member, and none of weight 0. In turn, those of one weight are all reached; with affinity, a client stays. */
async function expectMembers(place: Place, connect: () => Promise<Reached>): Promise<void> {
  const { names, isSticky, toReach, isSingle } = planClients(place);
  const reached = new Set<string>();
  for (let at = 1; at <= connections; at += 1) {
    const found = await connect();
    if (found === undefined) return;
    expectOneOf(isSticky && reached.size > 0 ? [...reached] : names, found, place.name);
    reached.add(String(found));
    if (isSingle && toReach.every((one) => reached.has(one))) return;
  }
  const missing = quoteSome(toReach.filter((one) => !reached.has(one)));
  if (missing !== '')
    throw new CheckFailed(`${connections} connections to ${place.name} never reach ${missing}`);
}

/** The members of a place, which of them clients have to reach, and whether one connection shows as much as many. */
function planClients({ balancer, listener: { members } }: Place) {
  const serving = members.filter(({ weight }) => weight > 0);
  const names = serving.map(formatMember);
  const isSticky = balancer.method === 'hash' || balancer.affinityS !== null;
  const isSingle = names.length === 0 || (names.length === members.length && !isSticky);
  return { names, isSticky, isSingle, toReach: !isSticky && isInTurn(balancer, serving) ? names : [] };
}

function isInTurn({ method }: Balancer, members: readonly Member[]): boolean {
  const weights = new Set(members.map(({ weight }) => weight));
  return method === 'rr' && weights.size === 1 && members.length <= connections / 2;
}

function expectOneOf(names: readonly string[], found: string | null, name: string): void {
  if (found === null ? names.length === 0 : names.includes(found)) return;
  const wanted = names.length === 0 ? 'no member' : quoteSome(names);
  throw new CheckFailed(`a client of ${name} reaches ${found ?? 'no member'} instead of ${wanted}`);
}

/** Two for each of 50 members, of which one check has so many. */
const portCount = 100;

/** Longer than a connection takes, and short enough for a device that drops it. */
const connectMs = 3000;

/** Members that tell each client their own address and port, and echo what it says then; and a client. */
interface OpenMembers {
  readonly sites: Partial<Sites>;
  readonly actions: Pick<TargetActions, 'connect' | 'openSession'>;
  readonly close: () => void;
}

/**
 * Listens at addresses of this host, one of IPv4 at least. Without one of IPv6, nobody can tell where IPv6 leads.
 * @throws VipnatError DEVICE_SETTINGS_INVALID
 */
export async function openMembers(addresses: Balancer['addresses']): Promise<OpenMembers> {
  const [memberIpv4 = [], memberIpv6 = []] = ['ipv4', 'ipv6'].map((family) =>
    addresses.filter((address) => address.family === family),
  );
  const servers: Server[] = [];
  const close = () => {
    for (const server of servers) server.close();
  };
  const memberPorts: number[] = [];
  try {
    for (let at = 0; at < portCount; at += 1)
      for (const address of addresses) {
        const server = createServer((socket) => {
          socket.on('error', () => undefined).pipe(socket);
          socket.write(formatMember({ address, port: memberPorts[at] ?? 0 }));
        });
        servers.push(server.listen(memberPorts[at] ?? 0, address.text));
        await once(server, 'listening');
        memberPorts[at] = (server.address() as AddressInfo).port;
      }
  } catch (error) {
    close();
    throw new VipnatError('DEVICE_SETTINGS_INVALID', `--members: ${describeError(error)}`);
  }
  const hasIpv6 = memberIpv6.length > 0;
  const actions: OpenMembers['actions'] = {
    connect: async ({ addresses: [at] }, { port }, signal) => {
      if (at === undefined || (at.family === 'ipv6' && !hasIpv6)) return undefined;
      const socket = connect({ host: at.text, port, signal });
      return await receive(socket).finally(() => socket.destroy());
    },
    openSession: async ({ addresses: [at], listeners: [listener] }) => {
      const socket = connect({ host: at?.text, port: listener?.port ?? 0 });
      const found = await receive(socket);
      const member = listener?.members.find((one) => formatMember(one) === found);
      if (member === undefined) throw new CheckFailed(`a client reaches ${found ?? 'no member'}`);
      return {
        member,
        isOpen: async () => socket.write('?') && (await receive(socket)) !== null,
        close: () => Promise.resolve(void socket.destroy()),
      };
    },
  };
  return { sites: { memberIpv4, memberPorts, ...(hasIpv6 ? { memberIpv6 } : {}) }, actions, close };
}

/** What comes next; null where the connection ends before, or nothing comes in time. */
async function receive(socket: Socket): Promise<string | null> {
  const limit = setTimeout(() => socket.destroy(), connectMs);
  try {
    for await (const part of socket.iterator({ destroyOnReturn: false })) return String(part);
  } catch {
    // A device that refuses, or closes.
  } finally {
    clearTimeout(limit);
  }
  return null;
}
