import {
  excludedNodeLabel,
  apiGroup,
  apiVersion,
  type AddressPool,
  type Condition,
  type Seat,
} from '../../lib/api/vipnat.ts';
import {
  type Kind,
  type Step,
  nothing,
  toStep,
  keepFinalizer,
  patchStatus,
  toJson,
  type StepEvent,
} from '../step.ts';
import { findPoolsOf, compareAge } from '../cache/pools.ts';
import { listDiffering, type JudgedPool } from '../cache/known.ts';
import {
  isDeleted,
  listPublishedTexts,
  getUse,
  setCondition,
  findCondition,
  nameFamily,
  type WantedCondition,
} from '../cache/parts.ts';
import { shorten } from '../../lib/text.ts';
import { parseObjectName, type Family, families, countOfFamily } from '../../lib/net.ts';
import type { ClusterView } from '../cache/cache.ts';
import { findSelectorProblem } from '../../lib/api/endpoints.ts';
import { readDrained, dropDrained, type NodeReport } from '../../lib/api/node.ts';
import { mayHold } from '../cache/nodes.ts';
import { orderNodes, assignSeats, type SeatsRequest } from '../allocate/seats.ts';
import { countKnown, countTaken } from '../allocate/choose-address.ts';

/** kubeadm gives it to control-plane nodes. */
const labelHint = `and the label ${excludedNodeLabel} of nodes`;

/** Pools. One can be refused for another's sake, or have a VRID that another has: so most changes are news for all. */
export const addressPool: Kind = {
  name: 'AddressPool',
  source: 'pools',
  subject: { apiVersion: `${apiGroup}/${apiVersion}`, kind: 'AddressPool' },
  watches: [
    { source: 'judgements', toKeys: (_, { pools }) => pools.keys() },
    { source: 'exclusions', toKeys: ({ key }) => [key] },
    { source: 'namespaces', part: ({ metadata }) => metadata.labels, toKeys: (_, { pools }) => pools.keys() },
    {
      source: 'services',
      toKeys: ({ before, after }, { judgedPools }) =>
        findPoolsOf(judgedPools, listDiffering(listPublishedTexts(before), listPublishedTexts(after))),
    },
    {
      source: 'virtualIps',
      part: getUse,
      toKeys: ({ key, before, after }, { judgedPools }) => [
        ...[before, after].flatMap((virtualIp) => (virtualIp === null ? [] : [virtualIp.spec.pool])),
        ...findPoolsOf(judgedPools, [parseObjectName(key)?.text ?? '']),
      ],
    },
    {
      // A drain leaves out who can serve only while somebody else can.
      source: 'livingReports',
      part: ({ mode, unheld }) => [mode, unheld],
      toKeys: (_, { pools }) => pools.keys(),
    },
  ],
  next: nextPoolStep,
};

/** The next step of a pool. Its finalizer keeps it until no address of it is given, since without its seats nobody would hold them. */
function nextPoolStep(name: string, view: ClusterView): Step {
  const judged = view.judgedPools.get(name);
  if (judged === undefined) return nothing;
  const { pool } = judged;
  const step = keepFinalizer('AddressPool', pool, () => view.poolToVirtualIps.has(name));
  if (step !== null) return isDeleted(pool) ? { ...step, endsPool: name } : step;
  return writeStatus(judged, view) ?? nothing;
}

function writeStatus(judged: JudgedPool, view: ClusterView): Step | null {
  const { pool, refusal } = judged;
  const before: ReturnType<typeof setCondition> = pool.status?.conditions ?? [];
  const seats = listSeats(judged, view);
  const wanted = [
    describeRefusal(judged, view),
    describeSeats(judged, seats, view),
    describeFree(judged, view),
  ];
  const conditions = wanted.reduce((all, each) => setCondition(all, each, view.nowMs), before);
  const areSame = JSON.stringify(seats) === JSON.stringify(pool.status?.seats ?? []);
  if (areSame && conditions === before) return null;
  const write = patchStatus('AddressPool', pool, { seats: toJson(seats), conditions: toJson(conditions) });
  return toStep(
    write,
    toEvent(refusal, findCondition(before, 'Accepted'), findCondition(conditions, 'Accepted')),
  );
}

/** Reported once of each refusal, and when Nodes begin to report addresses of Services. */
function toEvent(
  refusal: JudgedPool['refusal'],
  before: Condition | null,
  after: Condition | null,
): StepEvent | null {
  const isNew = after?.reason !== before?.reason;
  if (isNew && after?.reason === 'NodeReportsAddress')
    return { type: 'Warning', reason: 'NodeReportsAddress', message: after.message };
  if (refusal === null || refusal.reason === 'Deleted' || before?.status === 'False') return null;
  return { type: 'Warning', reason: 'PoolRefused', message: refusal.message };
}

/** A pool that is refused keeps its seats, and gets no more. Nodes come and go under it as under any other. */
function listSeats({ pool, ranges, refusal }: JudgedPool, view: ClusterView): Seat[] {
  const before = pool.status?.seats ?? [];
  // Nobody knows which nodes a selector means that says nothing.
  if (findSelectorProblem(pool.spec.nodeSelector) !== null) return before;
  const drained = readDrained(pool);
  const isAble = (node: string) => (view.livingReports.get(node)?.mode ?? 'none') !== 'none';
  const seatHolders = [...view.nodes.values()].filter((node) => mayHold(pool, node));
  const names = seatHolders.map((node) => node.metadata.name).sort();
  const unable = names.filter((node) => {
    const { mode, programmed = {} } = view.livingReports.get(node) ?? {};
    // The first report of a new Lease says so, too, and that nothing is programmed.
    return mode === 'none' && Object.keys(programmed).length > 0;
  });
  const nodes = dropDrained(dropDrained(names, { drained, seat: null, isAble }), {
    drained: unable.map((node) => ({ node, seat: null })),
    ...{ seat: null, isAble },
  });
  const judgeNode = (node: string, index: number) =>
    judgeSeatNode(`${pool.metadata.name}/${index}`, view.livingReports.get(node));
  const seats =
    refusal !== null
      ? orderNodes({ pool, nodes, judgeNode }, before)
      : assignSeats({
          ...{ pool, ranges, nodes, judgeNode, reservedVrids: view.reservedVrids },
          isUsed: findUsedSeats(pool, view),
          findGiven: (family) => findGiven(pool, family, view),
          others: listOthers(pool, view),
        });
  return seats.map((seat) => ({
    ...seat,
    nodes: dropDrained(seat.nodes, { drained, seat: seat.index, isAble }),
  }));
}

/** What a node says of a seat, by its name. */
function judgeSeatNode(seat: string, report: NodeReport | undefined): 'holds' | 'able' | 'unable' {
  if (report?.seats.includes(seat) === true) return 'holds';
  return (report?.mode ?? 'none') !== 'none' && report?.unheld?.[seat] === undefined ? 'able' : 'unable';
}

/** Looked up only where a seat may go, or get another VRID. */
function findUsedSeats({ metadata: { name } }: AddressPool, view: ClusterView): (index: number) => boolean {
  let used: ReadonlySet<number> | null = null;
  return (index) => {
    const names = [...(view.poolToVirtualIps.get(name) ?? [])];
    used ??= new Set(names.map((each) => view.virtualIps.get(each)?.spec.seat ?? 0));
    return used.has(index);
  };
}

/** Some address that is given of a pool, in canonical text. */
function findGiven({ metadata: { name } }: AddressPool, family: Family, view: ClusterView): string | null {
  const [given] = view.familyToVirtualIps.get(nameFamily(name, family)) ?? [];
  return given === undefined ? null : (parseObjectName(given)?.text ?? null);
}

function listOthers(pool: AddressPool, view: ClusterView): SeatsRequest['others'] {
  const others = [...view.pools.values()].filter(({ metadata }) => metadata.name !== pool.metadata.name);
  const list = (pools: readonly AddressPool[]) => pools.flatMap(({ status }) => status?.seats ?? []);
  return {
    older: list(others.filter((other) => compareAge(other, pool) < 0)),
    younger: list(others.filter((other) => compareAge(other, pool) > 0)),
  };
}

function describeRefusal(judged: JudgedPool, view: ClusterView): WantedCondition {
  const { refusal, pool } = judged;
  const observedGeneration = pool.metadata.generation;
  if (refusal !== null) return { type: 'Accepted', status: 'False', ...refusal, observedGeneration };
  const accepted = { type: 'Accepted', status: 'True', observedGeneration } as const;
  if (judged.misreported.length > 0) {
    const message = `Services get its addresses. Nodes report addresses of Services as their own: ${shorten(judged.misreported)}. Start the kubelets there with --node-ip.`;
    return { ...accepted, reason: 'NodeReportsAddress', message };
  }
  const exclusions = view.exclusions.list(pool.metadata.name);
  if (exclusions.length === 0)
    return { ...accepted, reason: 'Accepted', message: 'Services get its addresses.' };
  const message = `Services get its addresses, but not ${shorten(exclusions)}.`;
  return { ...accepted, reason: 'SomeKeptBack', message };
}

function describeSeats(judged: JudgedPool, seats: readonly Seat[], view: ClusterView): WantedCondition {
  const { pool, ranges, refusal } = judged;
  const type = 'Seated';
  const unseated = (reason: string, message: string): WantedCondition => {
    return { type, status: 'False', reason, message };
  };
  if (seats.length === 0 && refusal !== null)
    return unseated('NotAccepted', 'It gets seats once it is accepted.');
  if (seats.length === 0)
    return unseated('NoSeat', 'No VRID is free for a seat: others have all of spec.vrids, or 1 to 255.');
  if (seats.some(({ nodes }) => !nodes.some((node) => view.nodes.has(node))))
    return unseated('NoNode', `No node may hold its addresses: see nodeSelector, ${labelHint}.`);
  const unheld = describeUnheld(pool, seats, view);
  if (unheld?.isNobody === true) return unseated('CannotBeHeld', unheld.message);
  if (unheld !== null) return { type, status: 'True', reason: 'SomeNodesCannot', message: unheld.message };
  const wanted = families.filter((family) => countOfFamily(ranges, family) > 0n).length * pool.spec.seats;
  const message =
    seats.length < wanted
      ? `It has ${seats.length} of ${wanted} seats: no VRID is free for further ones.`
      : 'Every seat has nodes.';
  return { type, status: 'True', reason: 'Seated', message };
}

/** Seats that nodes say they cannot hold: those that nobody can, else those that others can. Null where each can hold all. */
function describeUnheld(
  { metadata: { name: pool } }: AddressPool,
  seats: readonly Seat[],
  { candidates }: ClusterView,
): { readonly isNobody: boolean; readonly message: string } | null {
  const lost = seats.find(({ index }) => candidates.explainUnheld(pool, index) !== null);
  const seat = lost ?? seats.find(({ index }) => candidates.listUnheld(pool, index).length > 0);
  if (seat === undefined) return null;
  const who = lost === undefined ? 'Some nodes cannot' : 'No node can';
  const clauses = shorten(candidates.listUnheld(pool, seat.index));
  return { isNobody: lost !== undefined, message: `${who} hold the seat ${pool}/${seat.index}. ${clauses}.` };
}

/** Numbers are not reported: they change with every Service. */
function describeFree(judged: JudgedPool, view: ClusterView): WantedCondition {
  const full = families.filter((family) => {
    const count = countOfFamily(judged.ranges, family);
    // Most pools have so many that nothing needs to be counted.
    if (count === 0n || BigInt(countKnown(judged, view)) < count) return false;
    return BigInt(countTaken(judged, family, view)) >= count;
  });
  const type = 'Available';
  if (full.length === 0)
    return { type, status: 'True', reason: 'AddressesLeft', message: 'Some addresses are free.' };
  const message = `All ${full.join(' and ')} addresses are given.`;
  return { type, status: 'False', reason: 'Exhausted', message };
}
