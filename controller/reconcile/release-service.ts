import { addressReady } from '../../lib/services/names.ts';
import { type Service } from '../../lib/services/services.ts';
import { setCondition } from '../world/conditions.ts';
import { getIngress } from '../world/published.ts';
import { type World } from '../world/world.ts';
import { type Claim, findClaims, startLeaving } from './claims.ts';
import { dropFinalizers } from './finalizers.ts';
import { restoreLost } from './restore-virtual-ip.ts';
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
  const lost = restoreLost(service, world);
  if (lost !== null) return toStep(lost);
  if (!leaving.every(({ virtualIp }) => world.candidates.haveForgotten(virtualIp.metadata.resourceVersion)))
    return tellWait(service, leaving, world);
  return clearStatus(service, leaving) ?? removeFinalizer(service, leaving);
}

/** Nodes forget an address within a second. One that has not after so long is named. */
const toldMs = 60_000;

/** After that the condition names the nodes, those that hold no address, too: whoever deletes the Service waits for them. */
function tellWait(service: Service, leaving: readonly Claim[], world: World): Step {
  const texts = leaving.map(({ address }) => address.text).join(', ');
  const sinceMs = leaving.map(({ virtualIp }) => world.generationMs.get(virtualIp.metadata.name) ?? 0);
  const untilMs = Math.min(world.nowMs, Math.max(...sinceMs)) + toldMs;
  const behind = leaving.flatMap(({ virtualIp }) =>
    world.candidates.listNotForgotten(virtualIp.metadata.resourceVersion),
  );
  const message = `${texts}: nodes have not withdrawn it yet: ${shorten([...new Set(behind)].sort())}.`;
  const wait = { does: 'wait', waitsFor: 'nodes', why: message, untilMs: null } as const;
  if (untilMs > world.nowMs) return { ...wait, untilMs };
  const before = service.status?.conditions ?? [];
  const wanted = { type: addressReady, status: 'False', reason: 'WaitingForNodes', message } as const;
  const conditions = setCondition(before, wanted, world.nowMs);
  return conditions === before
    ? wait
    : toStep(patchServiceStatus(service, { conditions: toJson(conditions) }));
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
