/** What the status of a VirtualIP says: what nodes say of it. */
import { parseObjectName } from '../../lib/services/address-name.ts';
import { type Condition } from '../../lib/services/metadata.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type AddressUser, type VirtualIp } from '../../lib/services/objects.ts';
import { findCondition, isInUse, isProgrammed, setCondition, toTime } from '../cache/conditions.ts';
import { readReleasedMs } from '../cache/object-parts.ts';
import { type World } from '../cache/world.ts';
import { listSilentHolders } from '../cache/silent-nodes.ts';
import { isPublished } from './may-publish.ts';
import { shorten } from './shorten.ts';

/** What it is to say. */
export interface VirtualIpStatus {
  /** Those that are there, if they are as they should be. */
  readonly conditions: readonly Condition[];
  /** The node that says it holds the seat, and how that one balances; null while none does, or several. */
  readonly holder: string | null;
  readonly mode: string | null;
  /** Since when nobody has it: RFC 3339; null while somebody has it. */
  readonly releasedAt: string | null;
}

/** Judges an address by what living nodes report. */
export function judgeVirtualIp(virtualIp: VirtualIp, world: World): VirtualIpStatus {
  const known: readonly Condition[] = virtualIp.status?.conditions ?? [];
  const withUse = addWithdrawn(addInUse(known, virtualIp, world), virtualIp, world);
  const conditions = addProgrammed(withUse, virtualIp, world);
  const current = { ...virtualIp, status: { ...virtualIp.status, conditions: [...conditions] } };
  const holders = listHolders(current, world);
  const [holder = null] = holders.length === 1 ? holders : [];
  return {
    conditions: isTold(current) ? addAnnounced(conditions, current, { holders, world }) : conditions,
    holder: holder?.node ?? null,
    mode: holder?.mode ?? null,
    releasedAt: findReleasedAt(virtualIp, world),
  };
}

/** Before nodes have it, nobody can hold it: one write tells both. */
function isTold(virtualIp: VirtualIp): boolean {
  return isProgrammed(virtualIp) || findCondition(virtualIp.status?.conditions ?? [], 'Announced') !== null;
}

function listHolders(virtualIp: VirtualIp, world: World): readonly NodeReport[] {
  const { pool, seat, services } = virtualIp.spec;
  const isHeld = services.length > 0 && isTold(virtualIp) && !isInUse(virtualIp);
  return isHeld ? world.candidates.listHolders(`${pool}/${seat}`) : [];
}

function addAnnounced(
  before: readonly Condition[],
  virtualIp: VirtualIp,
  { holders, world }: { readonly holders: readonly NodeReport[]; readonly world: World },
): readonly Condition[] {
  const names = holders.map(({ node }) => node);
  return setCondition(before, { type: 'Announced', ...describeHolders(virtualIp, names) }, world.nowMs);
}

/** Since when nobody has it: the moment that is known, or now. Null while somebody has it. */
function findReleasedAt(virtualIp: VirtualIp, world: World): string | null {
  const { services, leaving } = virtualIp.spec;
  if (services.length > 0 || leaving.length > 0) return null;
  return toTime(readReleasedMs(virtualIp, world) ?? world.nowMs);
}

/** While no node lives that could ask, what was found stays so. */
function addInUse(before: readonly Condition[], virtualIp: VirtualIp, world: World): readonly Condition[] {
  const text = parseObjectName(virtualIp.metadata.name)?.text ?? '';
  const isReported = isWitnessed(text, virtualIp, world);
  const { pool, services } = virtualIp.spec;
  const isUnasked = services.length > 0 && world.candidates.list(pool).length === 0;
  if (!isReported && (!isInUse(virtualIp) || isUnasked)) return before;
  const wanted = isReported
    ? ({
        status: 'True',
        reason: 'AnotherHost',
        message: 'Another host on the network answers for it.',
      } as const)
    : ({ status: 'False', reason: 'Free', message: 'No other host answers for it.' } as const);
  return setCondition(before, { type: 'AddressInUse', ...wanted }, world.nowMs);
}

/**
 * Whether nodes are to be believed that another host has an address. Only who holds a seat asks for its addresses, so no other node alone
 * is: one that is lost could take all addresses of the cluster out of use. Two of those that may hold the seat are. What was believed stays so
 * while one of them says it, also when the seat has moved.
 */
function isWitnessed(text: string, virtualIp: VirtualIp, world: World): boolean {
  const { pool, seat, services } = virtualIp.spec;
  const witnesses = world.candidates.listWitnesses(pool, seat, text);
  if (witnesses.length !== 1 || isInUse(virtualIp)) return witnesses.length > 0;
  const holders = world.candidates.listSeatHolders(pool, seat);
  if (holders.length > 0) return holders.length === 1 && holders[0] === witnesses[0];
  const address = parseObjectName(virtualIp.metadata.name);
  return !services.some((user) => {
    const service = findService(user, world);
    return service !== undefined && address !== null && isPublished(service, address);
  });
}

/** Said only where it takes longer: Services have left it, living nodes have forgotten it, and others may not have. */
function addWithdrawn(
  before: readonly Condition[],
  virtualIp: VirtualIp,
  world: World,
): readonly Condition[] {
  const { metadata, spec } = virtualIp;
  const isAwaited = spec.leaving.length > 0 && world.candidates.haveForgotten(metadata.resourceVersion);
  const silent = isAwaited ? listSilentHolders(virtualIp, world) : [];
  const isSaid = findCondition(before, 'Withdrawn')?.status === 'False';
  // Whoever leaves next is judged when living nodes have forgotten it.
  if (silent.length === 0 && (!isSaid || (spec.leaving.length > 0 && !isAwaited))) return before;
  const message = 'No node serves it for a Service that gave it back.';
  const wanted =
    silent.length === 0
      ? ({ status: 'True', reason: 'Forgotten', message } as const)
      : ({ status: 'False', reason: 'NodeSilent', message: describeSilent(silent) } as const);
  return setCondition(before, { type: 'Withdrawn', ...wanted }, world.nowMs);
}

function describeSilent(nodes: readonly string[]): string {
  const names = shorten(nodes);
  return `${names} may still serve it: the Lease is over. No other Service gets it before the balancer there reports, or the Node is deleted.`;
}

function addProgrammed(
  before: readonly Condition[],
  virtualIp: VirtualIp,
  world: World,
): readonly Condition[] {
  const { spec, metadata } = virtualIp;
  if (spec.services.length === 0 || isProgrammed(virtualIp) || !isOnAllNodes(virtualIp, world)) return before;
  const wanted = {
    type: 'Programmed',
    status: 'True',
    reason: 'Programmed',
    message: 'Every living node of its pool has programmed it.',
    observedGeneration: metadata.generation,
  } as const;
  return setCondition(before, wanted, world.nowMs);
}

/** Every candidate has it and its Services, as they are now. There is one at least. */
function isOnAllNodes({ metadata, spec }: VirtualIp, world: World): boolean {
  const { candidates } = world;
  return (
    candidates.list(spec.pool).length > 0 &&
    candidates.haveProgrammed(spec.pool, 'virtualips', metadata.resourceVersion) &&
    spec.services.every((user) => {
      const version = findService(user, world)?.metadata.resourceVersion;
      return version !== undefined && candidates.haveProgrammed(spec.pool, 'services', version);
    })
  );
}

/** Whether one node holds the address. Nothing is decided by it. */
function describeHolders(
  virtualIp: VirtualIp,
  holders: readonly string[],
): { readonly status: 'True' | 'False'; readonly reason: string; readonly message: string } {
  const { pool, seat, services } = virtualIp.spec;
  const name = `the seat ${pool}/${seat}`;
  if (holders.length === 1)
    return { status: 'True', reason: 'Announced', message: `One node holds ${name}.` };
  const status = 'False';
  if (isInUse(virtualIp))
    return { status, reason: 'AddressInUse', message: 'No node holds it: another host answers for it.' };
  if (services.length === 0) return { status, reason: 'NoService', message: 'No Service has it.' };
  if (holders.length === 0)
    return { status, reason: 'NoHolder', message: `No living node says that it holds ${name}.` };
  const message = `Several nodes say that they hold ${name}: ${shorten(holders)}.`;
  return { status, reason: 'SeveralHolders', message };
}

/** The Service of a user, if it is the same one. */
export function findService(
  { namespace, name, uid }: AddressUser,
  world: World,
): ReturnType<World['services']['get']> {
  const service = world.services.get(`${namespace}/${name}`);
  return service?.metadata.uid === uid ? service : undefined;
}
