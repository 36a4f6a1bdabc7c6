import { addressReady } from '../../lib/services/names.ts';
import { type Service } from '../../lib/services/services.ts';
import { setCondition } from '../world/conditions.ts';
import { getIngress } from '../world/published.ts';
import { type World } from '../world/world.ts';
import { type Claim, findClaims, startLeaving } from './claims.ts';
import { dropFinalizers } from './finalizers.ts';
import { shorten } from './shorten.ts';
import { nothing, type Step } from './step.ts';
import { patchServiceMetadata, patchServiceStatus, patchVirtualIp, toJson, toStep } from './writes.ts';

/**
 * The next step of a Service that is to have no address of ours: it is being deleted, or its type or class is another one. Its
 * addresses are withdrawn, every living node forgets them, its status loses them, the finalizer goes. What others wrote into the
 * status stays, and a Service that we have nothing in is not touched.
 */
export function releaseService(service: Service, world: World): Step {
  const { held, leaving } = findClaims(service, world);
  const [claim] = held;
  if (claim !== undefined) {
    const uids = new Set([service.metadata.uid]);
    return toStep(patchVirtualIp(claim.virtualIp, startLeaving(claim.virtualIp, uids)));
  }
  if (leaving.length === 0 && dropFinalizers(service) === null) return nothing;
  if (!leaving.every(({ virtualIp }) => world.candidates.haveForgotten(virtualIp.metadata.resourceVersion)))
    return tellBehind(service, leaving, world) ?? awaitNodes(service, leaving, world);
  return clearStatus(service, leaving) ?? removeFinalizer(service, leaving);
}

/** Nodes forget an address within a second. One that has not after so long is named. */
const toldMs = 60_000;

/** When nodes are named that hold up the end of a Service; null where its end has no date. */
function findToldMs({ metadata }: Service): number | null {
  const ms = Date.parse(metadata.deletionTimestamp ?? '');
  return Number.isNaN(ms) ? null : ms + toldMs;
}

function awaitNodes(service: Service, leaving: readonly Claim[], { nowMs }: World): Step {
  const untilMs = findToldMs(service);
  const isAhead = untilMs !== null && untilMs > nowMs;
  return { does: 'wait', waitsFor: 'nodes', why: describeWait(leaving), untilMs: isAhead ? untilMs : null };
}

function tellBehind(service: Service, leaving: readonly Claim[], { candidates, nowMs }: World): Step | null {
  const fromMs = findToldMs(service);
  if (fromMs === null || fromMs > nowMs) return null;
  const nodes = new Set(
    leaving.flatMap(({ virtualIp }) => candidates.listNotForgotten(virtualIp.metadata.resourceVersion)),
  );
  const addresses = leaving.map(({ address }) => address.text).join(', ');
  const message = `${addresses}: the Service ends when these nodes have forgotten it: ${shorten([...nodes].sort())}.`;
  const before = service.status?.conditions ?? [];
  const wanted = { type: addressReady, status: 'False', reason: 'WaitingForNodes', message } as const;
  const conditions = setCondition(before, wanted, nowMs);
  return conditions === before
    ? null
    : toStep(patchServiceStatus(service, { conditions: toJson(conditions) }));
}

function describeWait(leaving: readonly Claim[]): string {
  return `every node forgets ${leaving.map(({ address }) => address.text).join(', ')}`;
}

function clearStatus(service: Service, leaving: readonly Claim[]): Step | null {
  const [ingress, conditions] = [getIngress(service), service.status?.conditions ?? []];
  const ours = new Set(leaving.map(({ address }) => address.text));
  const others = ingress.filter(({ ip }) => !ours.has(ip ?? ''));
  const otherConditions = conditions.filter(({ type }) => type !== addressReady);
  if (others.length === ingress.length && otherConditions.length === conditions.length) return null;
  return toStep(
    patchServiceStatus(service, {
      loadBalancer: { ingress: others.length === 0 ? null : toJson(others) },
      conditions: toJson(otherConditions),
    }),
  );
}

function removeFinalizer(service: Service, leaving: readonly Claim[]): Step {
  const finalizers = dropFinalizers(service);
  if (finalizers === null) return nothing;
  const addresses = leaving.map(({ address }) => address.text).join(', ');
  return toStep(
    patchServiceMetadata(service, { finalizers }),
    leaving.length === 0
      ? null
      : { type: 'Normal', reason: 'AddressReleased', message: `${addresses} is given back.` },
  );
}
