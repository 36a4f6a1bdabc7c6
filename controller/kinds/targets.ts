import { type Address, type Family } from '../../lib/address/address.ts';
import { addressReady } from '../../lib/services/names.ts';
import { type Service } from '../../lib/services/services.ts';
import { readWishes, type Wishes } from '../../lib/services/wishes.ts';
import {
  type AllocationProblem,
  type Choice,
  chooseAny,
  chooseNamed,
  type Request,
} from '../allocate/choose-address.ts';
import { findCondition, isInUse, listPublished } from '../cache/object-parts.ts';
import { type World } from '../cache/world.ts';
import { type Claim, type Claims, findClaims } from './claims.ts';

/** Where a Service stands with one family. */
export interface Target {
  readonly family: Family;
  /** What its status has of this family, if it is still its own. */
  readonly published: Claim | null;
  /** What it has, and is to publish. */
  readonly held: Claim | null;
  /** What it is to take. */
  readonly choice: Choice | null;
  readonly problem: TargetProblem | null;
}

/** Why a family has no address, or not the one that is asked for. */
export interface TargetProblem {
  readonly reason: AllocationProblem['reason'] | 'AddressLost';
  readonly message: string;
}

/** A Service, with what follows from it. */
export interface Situation {
  readonly service: Service;
  readonly wishes: Wishes;
  readonly claims: Claims;
  /** In the order of the Service's own families. */
  readonly targets: readonly Target[];
}

/** What a Service is to have: the address that is asked for, else the one it has, else any. */
export function findTargets(service: Service, world: World): Situation {
  const wishes = readWishes(service);
  const claims = findClaims(service, world);
  const targets = wishes.families.map((family) => findTarget({ service, wishes, family }, claims, world));
  return { service, wishes, claims, targets };
}

function findTarget(request: Request, claims: Claims, world: World): Target {
  const { service, wishes, family } = request;
  const held = claims.held.filter(({ address }) => address.family === family);
  const named = listPublished(service).find((address) => address.family === family);
  const published = held.find(({ address }) => address.text === named?.text) ?? null;
  const base = { family, published, held: null, choice: null, problem: null };
  const requested = wishes.addresses[family];
  if (wishes.problem !== null && requested === undefined) {
    const problem = { reason: 'AddressesMalformed' as const, message: `${wishes.problem}.` };
    return { ...base, held: published, problem };
  }
  if (requested !== undefined) return { ...base, ...findNamed(request, requested, { held, world }) };
  if (published !== null) return { ...base, held: published };
  if (named !== undefined) {
    // Its status has an address that is not its own: of another load balancer, or its VirtualIP was deleted by hand.
    const choice = chooseNamed(request, named, world);
    return 'reason' in choice ? { ...base, problem: toLoss(named, choice) } : { ...base, choice };
  }
  const kept = held.find((claim) => isGood(claim, world)) ?? findWithdrawn(service, held);
  if (kept !== null) return { ...base, held: kept };
  return { ...base, ...findAny(request, { claims, world }) };
}

function findWithdrawn(service: Service, [first]: readonly Claim[]): Claim | null {
  return first !== undefined && wasWithdrawn(service) ? first : null;
}

/** Whether an address was taken out of a Service's status, because another host answers for it. It is to come back. */
export function wasWithdrawn({ status }: Service): boolean {
  return findCondition(status?.conditions ?? [], addressReady)?.reason === 'AddressWithdrawn';
}

function findNamed(
  request: Request,
  requested: Address,
  { held, world }: { readonly held: readonly Claim[]; readonly world: World },
): Partial<Target> {
  const own = held.find(({ address }) => address.text === requested.text);
  if (own !== undefined) return { held: own };
  if (request.wishes.problem !== null)
    return { problem: { reason: 'AddressesMalformed', message: `${request.wishes.problem}.` } };
  const choice = chooseNamed(request, requested, world);
  return 'reason' in choice ? { problem: choice } : { choice };
}

/** One that it gives back, before any other. */
function findAny(
  request: Request,
  { claims, world }: { readonly claims: Claims; readonly world: World },
): Partial<Target> {
  for (const claim of claims.leaving.filter(({ address }) => address.family === request.family)) {
    const again = isGood(claim, world) ? chooseNamed(request, claim.address, world) : null;
    if (again !== null && !('reason' in again)) return { choice: again };
  }
  const choice = chooseAny(request, world);
  return 'reason' in choice ? { problem: choice } : { choice };
}

function isGood({ virtualIp }: Pick<Claim, 'virtualIp'>, world: World): boolean {
  return !isInUse(virtualIp) && world.pools.has(virtualIp.spec.pool);
}

function toLoss({ text }: Address, { message }: AllocationProblem): TargetProblem {
  return { reason: 'AddressLost', message: `The Service no longer has ${text}. ${message}` };
}
