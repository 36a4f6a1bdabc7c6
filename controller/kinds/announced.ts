/**
 * Whether somebody answers for an address: the node that holds its seat has it on an interface.
 *
 * Goal: who reads an address in a Service's status reaches it.
 * Tension: only the holder knows, nodes of an older version do not say, and a seat that moves has no holder for a second.
 * Compromise: no address is published before its holder says so. Where a node does not say such things, it is published after 10 s all the
 * same: as before, keepalived has it by then. What is published stays so, and counts as lost when nobody has held its seat for 10 s.
 */
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type VirtualIp } from '../../lib/services/objects.ts';
import { findCondition } from '../cache/conditions.ts';
import { hasAnnounced } from '../cache/candidate-nodes.ts';
import { type World } from '../cache/world.ts';
import { type Claim } from './claims.ts';

/** A reason, and what is said of it. */
interface Lost {
  readonly reason: 'NoHolder' | 'NotAnnounced';
  readonly message: string;
}

/** Why nobody answers for an address. */
export interface Unanswered extends Lost {
  /** Since when nodes could have taken it. */
  readonly sinceMs: number;
  /** When it is published all the same; null for never. */
  readonly boundMs: number | null;
}

/** keepalived takes a second or two. A seat moves in a second, with `advert: 10s` in half a minute. */
const longMs = 10_000;

/** Why nobody answers for an address that nodes have programmed; null where somebody does, or nobody says. */
export function findUnanswered({ address: { text }, virtualIp }: Claim, world: World): Unanswered | null {
  const { candidates, generationVersions, nowMs } = world;
  const { metadata, spec } = virtualIp;
  const version = generationVersions.get(metadata.name) ?? metadata.resourceVersion;
  const holders = candidates.listSeatHolders(spec.pool, spec.seat);
  if (holders.some((one) => hasAnnounced(one, version) && one.unheld?.[text] === undefined)) return null;
  const sinceMs = findProgrammedMs(virtualIp, world);
  const isBound = candidates.isAnyMute(spec.pool) && !areUnable(holders, text);
  const boundMs = isBound ? sinceMs + longMs : null;
  if (boundMs !== null && boundMs <= nowMs) return null;
  return { ...describe(text, spec, holders[0]), sinceMs, boundMs };
}

/** Since when nodes could have put it on an interface, as it is now. */
function findProgrammedMs({ metadata, status }: VirtualIp, { generationMs, nowMs }: World): number {
  const programmed = findCondition(status?.conditions ?? [], 'Programmed');
  const programmedMs = toMs(programmed?.lastTransitionTime, nowMs);
  return Math.min(nowMs, Math.max(generationMs.get(metadata.name) ?? 0, programmedMs));
}

/** Why nobody answers for a published address: nobody has held its seat for long, or who holds the seat cannot hold the address. */
export function explainLost(claim: Claim, world: World): Lost | null {
  const { text } = claim.address;
  const { spec } = claim.virtualIp;
  const holders = world.candidates.listSeatHolders(spec.pool, spec.seat);
  const isLost =
    holders.length === 0 ? (findLostMs(claim, world) ?? Infinity) <= world.nowMs : areUnable(holders, text);
  return isLost ? describe(text, spec, holders[0]) : null;
}

function areUnable(holders: readonly NodeReport[], text: string): boolean {
  return holders.length > 0 && holders.every(({ unheld }) => unheld?.[text] !== undefined);
}

function describe(text: string, spec: VirtualIp['spec'], holder: NodeReport | undefined): Lost {
  const seat = `the seat ${spec.pool}/${spec.seat}`;
  if (holder === undefined)
    return { reason: 'NoHolder', message: `${text}: no living node says that it holds ${seat}.` };
  const why = holder.unheld?.[text];
  const clause =
    why === undefined ? 'no interface there has the address yet' : `cannot hold the address: ${why}`;
  return { reason: 'NotAnnounced', message: `${text}: ${holder.node} holds ${seat}, and ${clause}.` };
}

/** From when a published address counts as lost, because nobody holds its seat; null while somebody does. */
export function findLostMs({ virtualIp: { spec, status } }: Claim, world: World): number | null {
  const announced = findCondition(status?.conditions ?? [], 'Announced');
  if (announced?.reason !== 'NoHolder') return null;
  if (world.candidates.listSeatHolders(spec.pool, spec.seat).length > 0) return null;
  return toMs(announced.lastTransitionTime, world.nowMs) + longMs;
}

/** A date that lies ahead says nothing. */
function toMs(time: string | null | undefined, nowMs: number): number {
  const ms = Date.parse(time ?? '') || 0;
  return ms > nowMs ? 0 : ms;
}
