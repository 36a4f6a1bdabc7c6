import type { HaproxyAddress, HaproxySettings } from './settings.ts';
import {
  type DriverContext,
  DeviceError,
  type Change,
  type Balancer,
  type Listener,
  type Member,
  formatMember,
} from '../driver.ts';
import { exchangeText } from '../../lib/http/client.ts';
import {
  type UnitContent,
  formatKey,
  formatOwner,
  chooseSlots,
  readMethod,
  maps,
  readMembers,
  isFree,
  type Server,
  freePlace,
} from './content.ts';

/** A unit answers within milliseconds; a host that is nearly dead gets this long. */
const limitMs = 10_000;

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
  readonly context: DriverContext;
  readonly kind: 'read' | 'write';
  readonly signal: AbortSignal;
}

/**
 * Lets the unit do these commands, one after the other, and answers with what it prints for each. One that fails stops no other. Each call is
 * a connection of its own.
 * @throws DeviceError unreachable where not all were answered: some may be done. unauthorized where it takes no commands.
 */
export async function runCommands(commands: readonly string[], call: RuntimeCall): Promise<string[]> {
  const { address, settings, context, kind, signal } = call;
  const { unit, host, port } = address;
  const { login, ca } = settings;
  await context.beforeCall(`${kind} ${unit}`);
  const text = `${[login, ...commands, 'quit'].join('\n')}\n`;
  try {
    const limits = { connectLimitMs, limitMs, maxBytes };
    const answer = await exchangeText({ host, port, ca, text, ...limits, clock: context.clock, signal });
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
  ['ECONNRESET', 'the connection broke'],
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
  /** Another cluster may claim the same slot at the same time: who was first has it, and nothing may be in it before that is read. */
  readonly isReservation: boolean;
}

/** In this order: what is new, what changes, what drains, what goes. A slot is claimed before anything is in it, and free when nothing is. */
const phases = [
  ...(['clean', 'claim', 'add', 'change', 'note', 'route', 'drain', 'unroute', 'remove', 'release'] as const),
];
type Phase = (typeof phases)[number];

/**
 * Plans for these marks; null for what is to be gone. All else stays as it is.
 * @throws DeviceError refused where the unit has no room; foreign-changes where an address and port is another balancer's.
 */
export function planSteps(
  unit: string,
  content: UnitContent,
  markToWanted: ReadonlyMap<string, Balancer | null>,
): readonly Step[] {
  const planner = new Planner(unit, content, markToWanted);
  for (const { map, reference } of content.strays) planner.dropStray(map, reference);
  // What goes is planned last: what comes may have its addresses.
  const inOrder = [...markToWanted].toSorted(
    ([, one], [, other]) => Number(one === null) - Number(other === null),
  );
  for (const [mark, wanted] of inOrder) planner.plan(mark, wanted);
  return planner.steps;
}

class Planner {
  readonly #unit: string;
  readonly #content: UnitContent;
  readonly #planned: { readonly phase: Phase; readonly step: Step }[] = [];
  readonly #taken: Set<string>;
  readonly #markToKeys: ReadonlyMap<string, ReadonlySet<string>>;

  constructor(unit: string, content: UnitContent, markToWanted: ReadonlyMap<string, Balancer | null>) {
    this.#unit = unit;
    this.#content = content;
    this.#markToKeys = new Map([...markToWanted].map(([mark, wanted]) => [mark, listKeys(wanted)]));
    this.#taken = new Set(content.slotToOwner.keys());
  }

  get steps(): readonly Step[] {
    return this.#planned
      .toSorted((one, other) => phases.indexOf(one.phase) - phases.indexOf(other.phase))
      .map(({ step }) => step);
  }

  dropStray(map: string, reference: string): void {
    const change = { object: `second entry of ${map}`, before: reference, after: null };
    this.#add('clean', change, '', `del map ${map} #${reference}`);
  }

  plan(mark: string, wanted: Balancer | null): void {
    const { slotToOwner } = this.#content;
    const own = [...slotToOwner].filter(([, owner]) => owner.mark === mark).map(([slot]) => slot);
    const used = new Set<string>();
    for (const listener of wanted?.listeners ?? []) {
      if (wanted === null) break;
      const slot = this.#planSlot(mark, wanted, listener);
      used.add(slot);
      this.#planServers(slot, listener.members);
      for (const address of wanted.addresses) {
        this.#planKey(mark, formatKey(address, listener.port), slot);
      }
    }
    for (const [key, slot] of this.#content.keyToSlot) {
      const isWanted = [...this.#markToKeys.values()].some((keys) => keys.has(key));
      if (own.includes(slot) && !isWanted) this.#dropKey(key, slot);
    }
    for (const slot of own.filter((one) => !used.has(one))) this.#release(slot);
  }

  #planSlot(mark: string, { method, affinityS }: Balancer, { port }: Listener): string {
    const owner = { mark, port, affinityS: affinityS ?? 0 };
    const text = formatOwner(owner);
    const present = chooseSlots(this.#content, mark).get(port);
    // Where the method changes, a former try may have claimed a slot already.
    const reserved = [...this.#content.slotToOwner].find(
      ([slot, other]) => readMethod(slot) === method && other.mark === mark && other.port === port,
    )?.[0];
    const own = present !== undefined && readMethod(present) === method ? present : reserved;
    if (own !== undefined) {
      this.#note(own, text);
      return own;
    }
    const slots = [...this.#content.slotToServers.keys()].filter((slot) => readMethod(slot) === method);
    const slot = slots.find((one) => !this.#taken.has(one));
    if (slot === undefined) {
      const why = `${this.#unit} has ${slots.length} slots for listeners with ${method}, and all are taken`;
      throw new DeviceError('refused', `${why}: raise the option slots`);
    }
    this.#taken.add(slot);
    const change = { object: `slot ${slot}`, before: null, after: text };
    this.#add('claim', change, slot, `add map ${maps.owners} ${slot} ${text}`);
    return slot;
  }

  #note(slot: string, text: string): void {
    const owner = this.#content.slotToOwner.get(slot);
    const before = owner === undefined ? '' : formatOwner(owner);
    if (before === text) return;
    const change = { object: `slot ${slot}`, before, after: text };
    this.#add('note', change, slot, `set map ${maps.owners} ${slot} ${text}`);
  }

  #planServers(slot: string, members: readonly Member[]): void {
    // What somebody has left in a slot that gets no connections yet is to get none at all.
    const isRouted = [...this.#content.keyToSlot.values()].includes(slot);
    const servers = this.#content.slotToServers.get(slot) ?? [];
    const nameToServer = new Map(
      readMembers(servers).map(({ member, server }) => [formatMember(member), server]),
    );
    const stays = new Set(members.flatMap((member) => nameToServer.get(formatMember(member)) ?? []));
    const leaves = servers.filter((server) => !isFree(server) && !stays.has(server));
    // The one that has rested for longest has the fewest connections left of what it was before.
    const free = servers.filter(isFree).toSorted((one, other) => other.ageS - one.ageS);
    for (const member of members) {
      const present = nameToServer.get(formatMember(member));
      if (present !== undefined) this.#changeServer(slot, present, member);
      else this.#addServer(slot, { free, leaves }, member);
    }
    for (const server of leaves) this.#removeServer(isRouted ? 'remove' : 'clean', slot, server);
  }

  #addServer(slot: string, rooms: Readonly<Record<'free' | 'leaves', Server[]>>, member: Member): void {
    const isLate = rooms.free.length === 0;
    // Where there is no room for both, something goes first.
    const server = rooms.free.shift() ?? rooms.leaves.shift();
    if (server === undefined) {
      const count = this.#content.slotToServers.get(slot)?.length ?? 0;
      const why = `${this.#unit} has ${count} members at most: raise the option members`;
      throw new DeviceError('refused', why);
    }
    const place = `${slot}/${server.name}`;
    const before = isLate ? formatServer(server) : null;
    const change = { object: `server ${place}`, before, after: formatWanted(member) };
    const stop = server.isOn ? [`set server ${place} state maint`] : [];
    const move = `set server ${place} addr ${member.address.text} port ${member.port}`;
    const serve = [`set server ${place} weight ${member.weight}`, `set server ${place} state ready`];
    this.#add(isLate ? 'remove' : 'add', change, slot, ...stop, move, ...(member.weight > 0 ? serve : []));
  }

  #changeServer(slot: string, server: Server, member: Member): void {
    const place = `${slot}/${server.name}`;
    const change = { object: `server ${place}`, before: formatServer(server), after: formatWanted(member) };
    if (member.weight === 0) {
      if (server.isOn) this.#add('drain', change, slot, `set server ${place} state maint`);
      return;
    }
    if (server.isOn && server.weight === member.weight) return;
    const weigh = `set server ${place} weight ${member.weight}`;
    this.#add('change', change, slot, weigh, ...(server.isOn ? [] : [`set server ${place} state ready`]));
  }

  #removeServer(phase: Phase, slot: string, server: Server): void {
    const place = `${slot}/${server.name}`;
    const change = { object: `server ${place}`, before: formatServer(server), after: null };
    const free = `set server ${place} addr ${freePlace.address} port ${freePlace.port}`;
    this.#add(phase, change, slot, `set server ${place} state maint`, free);
  }

  #planKey(mark: string, key: string, slot: string): void {
    const before = this.#content.keyToSlot.get(key);
    if (before !== undefined) this.#refuseOthers(mark, key, before);
    if (before === slot) return;
    const change = { object: `frontend ${key}`, before: before ?? null, after: slot };
    const verb = before === undefined ? 'add' : 'set';
    this.#add('route', change, slot, `${verb} map ${maps.frontends} ${key} ${slot}`);
  }

  #refuseOthers(mark: string, key: string, slot: string): void {
    const other = this.#content.slotToOwner.get(slot)?.mark;
    if (other === undefined || other === mark) return;
    // Where the other one goes or leaves this address in the same change, it is free.
    if (this.#markToKeys.get(other)?.has(key) === false) return;
    throw new DeviceError('foreign-changes', `${this.#unit} has ${key} for ${other}: remove that first`);
  }

  #dropKey(key: string, slot: string): void {
    const change = { object: `frontend ${key}`, before: slot, after: null };
    this.#add('unroute', change, slot, `del map ${maps.frontends} ${key}`);
  }

  #release(slot: string): void {
    const owner = this.#content.slotToOwner.get(slot);
    for (const server of this.#content.slotToServers.get(slot) ?? []) {
      if (!isFree(server)) this.#removeServer('remove', slot, server);
    }
    const before = owner === undefined ? '' : formatOwner(owner);
    const change = { object: `slot ${slot}`, before, after: null };
    this.#add('release', change, slot, `del map ${maps.owners} ${slot}`);
  }

  #add(phase: Phase, change: Change, slot: string, ...commands: readonly string[]): void {
    this.#planned.push({ phase, step: { change, commands, slot, isReservation: phase === 'claim' } });
  }
}

function formatServer(server: Server): string {
  return `${server.address}:${server.port} weight ${server.isOn ? server.weight : 0}`;
}

function formatWanted(member: Member): string {
  return `${member.address.text}:${member.port} weight ${member.weight}`;
}

function listKeys(wanted: Balancer | null): ReadonlySet<string> {
  return new Set(
    wanted?.listeners.flatMap(({ port }) => wanted.addresses.map((address) => formatKey(address, port))),
  );
}
