import type { Clock } from '../../lib/clock.ts';
import type { HaproxyAddress, HaproxySettings } from './settings.ts';
import {
  DeviceError,
  type Change,
  type DeviceMethod,
  type Balancer,
  type Listener,
  type Member,
  formatMember,
} from '../driver.ts';
import type { exchangeText } from '../../lib/http/client.ts';
import {
  type UnitContent,
  formatKey,
  formatOwner,
  chooseSlots,
  findUnheard,
  readMethod,
  maps,
  readMembers,
  isFree,
  type Server,
  freePlace,
} from './content.ts';

/** So long each change of a pair waits for a unit that is gone. A SYN that is lost comes again after a second. */
const connectLimitMs = 2000;

/** A hundred thousand servers, with room. */
const maxBytes = 64 * 1024 * 1024;

/** What HAProxy prints after each answer when it is interactive. Source: its management guide, 9.3. */
const promptText = '\n> ';

/** The runtime interface of one unit, by TLS, and what is done there. */
interface RuntimeCall {
  readonly address: HaproxyAddress;
  readonly settings: Pick<HaproxySettings, 'login' | 'ca'>;
  readonly exchange: typeof exchangeText;
  readonly clock: Clock;
  readonly limitMs: number;
  readonly signal: AbortSignal;
}

/**
 * Lets the unit do these commands, one after the other, and answers with what it prints for each. One that fails stops no other. Each call is
 * a connection of its own.
 * @throws DeviceError unreachable where not all were answered: some may be done. unauthorized where it takes no commands.
 */
export async function runCommands(commands: readonly string[], call: RuntimeCall): Promise<string[]> {
  const { address, settings, exchange, clock, limitMs, signal } = call;
  const { unit, host, port } = address;
  const { login, ca } = settings;
  const text = `${[login, ...commands, 'quit'].join('\n')}\n`;
  try {
    const limits = { connectLimitMs, limitMs, maxBytes };
    const answer = await exchange({ host, port, ca, text, ...limits, clock, signal });
    return split(unit, answer, commands.length);
  } catch (error) {
    signal.throwIfAborted();
    throw explain(unit, error);
  }
}

function split(unit: string, text: string, count: number): string[] {
  const [greeting, ...answers] = text.split(promptText);
  if (text === '')
    throw new DeviceError('unauthorized', `${unit} closes the connection: it does not take the credentials`);
  if (greeting !== '')
    throw new DeviceError('nonsense', `${unit} does not answer as HAProxy's runtime interface does`);
  if (answers.length <= count) throw new DeviceError('unreachable', `${unit} has broken off its answer`);
  return answers.slice(0, count).map((answer) => answer.replace(/^\n+|\n+$/g, ''));
}

function explain(unit: string, error: unknown): DeviceError {
  if (error instanceof DeviceError) return error;
  const { code = '', message } = error as NodeJS.ErrnoException;
  const words = codeToText.get(code) ?? (code === '' ? message : code);
  return new DeviceError('unreachable', `${unit} does not answer: ${words}`, { cause: error });
}

const codeToText = new Map<string, string>([
  ['ECONNREFUSED', 'connection refused'],
  ['ECONNRESET', 'the connection broke, or its option management does not admit this host'],
  ['ENOTFOUND', 'its name is unknown'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'its certificate is for another host'],
  ['CERT_HAS_EXPIRED', 'its certificate has expired'],
  ...['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'].map(
    (code) => [code, 'ca.crt of the credentials is missing, or has not signed its certificate'] as const,
  ),
]);

/** One thing that makes a unit's content what is wanted: commands of its runtime interface, in their order. */
export interface Step {
  readonly change: Change;
  readonly commands: readonly string[];
  /** The slot that it is about. */
  readonly slot: string;
  readonly phase: Phase;
}

/**
 * In this order: what is new, what changes, what drains, what goes. A slot is claimed before anything is in it, and free when nothing is. Another
 * cluster may claim the same one at the same time: who was first has it, and nothing may be in it before that is read.
 */
const phases = [
  ...(['clean', 'claim', 'add', 'change', 'note', 'route', 'drain', 'unroute', 'remove', 'release'] as const),
];
type Phase = (typeof phases)[number];

/** What is to be done at a unit. */
export interface Plan {
  readonly steps: readonly Step[];
  /** Why a balancer cannot be as it is wanted, by its mark: refused without room for it, foreign-changes where an address and port is another's. */
  readonly markToProblem: ReadonlyMap<string, DeviceError>;
}

/**
 * Plans for these marks; null for what is to be gone. All else stays as it is. Where something cannot be as it is wanted, nothing of it comes, and
 * the listeners that it has get the members that are wanted, as far as there is room.
 */
export function planSteps(
  unit: string,
  content: UnitContent,
  markToWanted: ReadonlyMap<string, Balancer | null>,
): Plan {
  const planner = new Planner(unit, content, markToWanted);
  for (const { map, reference } of content.strays) planner.dropStray(map, reference);
  // What goes is planned last: what comes may have its addresses.
  const inOrder = [...markToWanted].toSorted(
    ([, one], [, other]) => Number(one === null) - Number(other === null),
  );
  for (const [mark, wanted] of inOrder) planner.plan(mark, wanted);
  return planner.result;
}

class Planner {
  readonly #unit: string;
  readonly #content: UnitContent;
  readonly #planned: Step[] = [];
  readonly #markToProblem = new Map<string, DeviceError>();
  readonly #methodToSlots: ReadonlyMap<DeviceMethod, readonly string[]>;
  readonly #methodToFree: ReadonlyMap<DeviceMethod, string[]>;
  readonly #markToKeys: ReadonlyMap<string, ReadonlySet<string>>;
  readonly #wantedKeys: ReadonlySet<string>;

  constructor(unit: string, content: UnitContent, markToWanted: ReadonlyMap<string, Balancer | null>) {
    this.#unit = unit;
    this.#content = content;
    this.#markToKeys = new Map([...markToWanted].map(([mark, wanted]) => [mark, listKeys(wanted)]));
    this.#wantedKeys = new Set([...this.#markToKeys.values()].flatMap((keys) => [...keys]));
    const slots = [...content.slotToServers.keys()];
    this.#methodToSlots = Map.groupBy(slots, readMethod);
    const free = slots.filter((slot) => !content.slotToOwner.has(slot));
    this.#methodToFree = Map.groupBy(free, readMethod);
  }

  get result(): Plan {
    const phaseToSteps = Map.groupBy(this.#planned, ({ phase }) => phase);
    const steps = phases.flatMap((phase) => phaseToSteps.get(phase) ?? []);
    return { steps, markToProblem: this.#markToProblem };
  }

  dropStray(map: string, reference: string): void {
    const change = { object: `second entry of ${map}`, before: reference, after: null };
    this.#add('clean', change, '', `del map ${map} #${reference}`);
  }

  plan(mark: string, wanted: Balancer | null): void {
    const portToSlot = this.#findSlots(mark, wanted);
    const problem = wanted === null ? null : this.#findProblem(mark, wanted, portToSlot);
    if (problem !== null) this.#markToProblem.set(mark, problem);
    const used = new Set<string>();
    for (const listener of wanted?.listeners ?? []) {
      const present = portToSlot.get(listener.port);
      const slot =
        problem === null && wanted !== null ? this.#planSlot(mark, wanted, listener, present) : present;
      if (slot === undefined) continue;
      used.add(slot);
      this.#planServers(slot, listener.members);
    }
    if (problem === null) this.#dropRest(mark, used);
  }

  #dropRest(mark: string, used: ReadonlySet<string>): void {
    const { markToSlots, slotToKeys } = this.#content;
    for (const slot of markToSlots.get(mark) ?? []) {
      for (const key of slotToKeys.get(slot)?.filter((one) => !this.#wantedKeys.has(one)) ?? []) {
        const change = { object: `frontend ${key}`, before: slot, after: null };
        this.#add('unroute', change, slot, `del map ${maps.frontends} ${key}`);
      }
      if (!used.has(slot)) this.#release(slot);
    }
  }

  #getServers(slot: string): readonly Server[] {
    return this.#content.slotToServers.get(slot) ?? [];
  }

  /** By port. One that the configuration has no more is none. Where the method changes, a former try may have claimed one already. */
  #findSlots(mark: string, wanted: Balancer | null): ReadonlyMap<number, string> {
    const { slotToServers } = this.#content;
    const fits = (slot: string) => slotToServers.has(slot) && readMethod(slot) === wanted?.method;
    return chooseSlots(this.#content, mark, fits);
  }

  #findProblem(mark: string, wanted: Balancer, portToSlot: ReadonlyMap<number, string>): DeviceError | null {
    const unheard = findUnheard(this.#content, wanted);
    if (unheard !== null) return new DeviceError('refused', `${this.#unit} cannot have it: ${unheard}`);
    for (const key of this.#markToKeys.get(mark) ?? []) {
      const other = this.#findOther(mark, key);
      // Its Service may be another tenant's.
      const [program, cluster] = other?.split('_') ?? [];
      const whose = program === 'vipnat' ? `the cluster ${cluster}` : 'another program';
      const why = `${this.#unit} has ${key} for ${whose}: remove it there`;
      if (other !== null) return new DeviceError('foreign-changes', why);
    }
    const lack = this.#findLack(wanted, portToSlot);
    return lack === null ? null : new DeviceError('refused', `${this.#unit} has ${lack}`);
  }

  #findLack({ method, listeners }: Balancer, portToSlot: ReadonlyMap<number, string>): string | null {
    const slots = this.#methodToSlots.get(method) ?? [];
    const lacking = listeners.filter(({ port }) => !portToSlot.has(port)).length;
    const free = (this.#methodToFree.get(method) ?? []).length;
    if (lacking > free) {
      const left = `${slots.length} slots for listeners with ${method}, and ${free} are free`;
      return `${left}: raise the option slots`;
    }
    // All slots have as many.
    const count = this.#getServers(slots[0] ?? '').length;
    const isFull = listeners.some(({ members }) => members.filter(isServing).length > count);
    return isFull ? `${count} members at most: raise the option members` : null;
  }

  #planSlot(mark: string, wanted: Balancer, { port }: Listener, present: string | undefined): string {
    const { method, affinityS, addresses } = wanted;
    const slot = present ?? this.#methodToFree.get(method)?.shift() ?? '';
    const before = this.#readOwner(slot);
    const after = formatOwner({ mark, identity: this.#getIdentity(slot), port, affinityS: affinityS ?? 0 });
    const [phase, verb] = before === null ? (['claim', 'add'] as const) : (['note', 'set'] as const);
    const change = { object: `slot ${slot}`, before, after };
    if (before !== after) this.#add(phase, change, slot, `${verb} map ${maps.owners} ${slot} ${after}`);
    for (const address of addresses) this.#planKey(formatKey(address, port), slot);
    return slot;
  }

  /** Who does not know it leaves what is written. */
  #getIdentity(slot: string): string {
    const { identity, slotToOwner } = this.#content;
    return identity ?? slotToOwner.get(slot)?.identity ?? '';
  }

  #readOwner(slot: string): string | null {
    const owner = this.#content.slotToOwner.get(slot);
    return owner === undefined ? null : formatOwner(owner);
  }

  /** Who gets no new connections gives its server to those that get some: the open ones stay. */
  #planServers(slot: string, members: readonly Member[]): void {
    const servers = this.#getServers(slot);
    const nameToServer = new Map(
      readMembers(servers).map(({ member, server }) => [formatMember(member), server]),
    );
    const find = (member: Member) => nameToServer.get(formatMember(member));
    const stays = new Set(members.map(find));
    const drains = new Set(members.filter((member) => !isServing(member)).map(find));
    const free = servers.filter(isFree).toSorted(byRest);
    const leaves = servers.filter((server) => !isFree(server) && !stays.has(server)).toSorted(byRest);
    const yields = servers.filter((server) => drains.has(server)).toSorted(byRest);
    for (const member of members.toSorted(
      (one, other) => Number(isServing(other)) - Number(isServing(one)),
    )) {
      const present = find(member);
      const rooms = isServing(member) ? [free, leaves, yields] : [free, leaves];
      if (present === undefined)
        this.#addServer(slot, rooms.find(({ length }) => length > 0)?.shift(), member);
      else if (isServing(member) || yields.includes(present)) this.#changeServer(slot, present, member);
    }
    // What somebody has left in a slot that gets no connections yet is to get none at all.
    const phase = this.#content.slotToKeys.has(slot) ? 'remove' : 'clean';
    for (const server of leaves) this.#removeServer(phase, slot, server);
  }

  /** Without a server it is left out. */
  #addServer(slot: string, server: Server | undefined, member: Member): void {
    if (server === undefined) return;
    const stop = server.isOn ? ['state maint'] : [];
    const move = `addr ${member.address.text} port ${member.port}`;
    const serve = isServing(member) ? [`weight ${member.weight}`, 'state ready'] : [];
    // Where there is no room for both, something goes first.
    this.#set(isFree(server) ? 'add' : 'remove', slot, { server, member }, ...stop, move, ...serve);
  }

  #changeServer(slot: string, server: Server, member: Member): void {
    if (!isServing(member)) {
      if (server.isOn) this.#set('drain', slot, { server, member }, 'state maint');
    } else if (!server.isOn || server.weight !== member.weight) {
      const start = server.isOn ? [] : ['state ready'];
      this.#set('change', slot, { server, member }, `weight ${member.weight}`, ...start);
    }
  }

  #removeServer(phase: Phase, slot: string, server: Server): void {
    const free = `addr ${freePlace.address} port ${freePlace.port}`;
    this.#set(phase, slot, { server, member: null }, 'state maint', free);
  }

  /** Makes a server what a member is, or free for `null`. */
  #set(phase: Phase, slot: string, { server, member }: Placing, ...settings: readonly string[]): void {
    const place = `${slot}/${server.name}`;
    const { address, port, weight, isOn } = server;
    const before = isFree(server) ? null : `${address}:${port} weight ${isOn ? weight : 0}`;
    const after = member === null ? null : `${member.address.text}:${member.port} weight ${member.weight}`;
    const commands = settings.map((setting) => `set server ${place} ${setting}`);
    this.#add(phase, { object: `server ${place}`, before, after }, slot, ...commands);
  }

  #planKey(key: string, slot: string): void {
    const before = this.#content.keyToSlot.get(key);
    if (before === slot) return;
    const change = { object: `frontend ${key}`, before: before ?? null, after: slot };
    const verb = before === undefined ? 'add' : 'set';
    this.#add('route', change, slot, `${verb} map ${maps.frontends} ${key} ${slot}`);
  }

  /** Whose an address and port is; null where it can be this one's: where the other one goes or leaves it in the same change, it is free. */
  #findOther(mark: string, key: string): string | null {
    const slot = this.#content.keyToSlot.get(key);
    const other = this.#content.slotToOwner.get(slot ?? '')?.mark;
    if (other === undefined || other === mark) return null;
    return this.#markToKeys.get(other)?.has(key) === false ? null : other;
  }

  #release(slot: string): void {
    for (const server of this.#getServers(slot))
      if (!isFree(server)) this.#removeServer('remove', slot, server);
    const change = { object: `slot ${slot}`, before: this.#readOwner(slot), after: null };
    this.#add('release', change, slot, `del map ${maps.owners} ${slot}`);
  }

  #add(phase: Phase, change: Change, slot: string, ...commands: readonly string[]): void {
    this.#planned.push({ phase, change, commands, slot });
  }
}

interface Placing {
  readonly server: Server;
  readonly member: Member | null;
}

const isServing = ({ weight }: Member) => weight > 0;

/** Those that are off first, and of these the one that has been for longest. */
function byRest(one: Server, other: Server): number {
  return Number(one.isOn) - Number(other.isOn) || other.ageS - one.ageS;
}

function listKeys(wanted: Balancer | null): ReadonlySet<string> {
  return new Set(
    wanted?.listeners.flatMap(({ port }) => wanted.addresses.map((address) => formatKey(address, port))),
  );
}
