import { parseAddress } from '../../lib/address/address.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { toObjectName } from '../../lib/services/address-name.ts';
import { type Node } from '../../lib/services/cluster.ts';
import { addressReady } from '../../lib/services/names.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type Service } from '../../lib/services/services.ts';
import { mayHold } from '../cache/candidate-nodes.ts';
import { setCondition, shorten } from '../cache/conditions.ts';
import { listDiffering } from '../cache/multi-map.ts';
import {
  getIngress,
  getPoolParts,
  getUse,
  listChangedUnheld,
  listPublishedTexts,
  listSeated,
  listUsers,
} from '../cache/object-parts.ts';
import { isNews, type WaitsFor } from '../cache/watch.ts';
import { type Known, type World } from '../cache/world.ts';
import { type Kind } from '../engine/kind.ts';
import { nothing, type Step, toJson, toStep } from '../engine/step.ts';
import { type Claim, dropFinalizers, findClaims, restoreLost, startLeaving } from './claims.ts';
import { isServed } from './may-publish.ts';
import { serveService } from './serve-service.ts';
import { findVirtualIpPath, patchServiceMetadata, patchServiceStatus, patchVirtualIp } from './writes.ts';

/** Services. */
export const service: Kind = {
  name: 'Service',
  source: 'services',
  subject: { apiVersion: 'v1', kind: 'Service' },
  watches: [
    {
      source: 'services',
      toKeys: ({ key }, known) => [key, ...listSharers(known.serviceToVirtualIps.get(key), known)],
      wakes: wakeWaiting,
    },
    {
      source: 'virtualIps',
      toKeys: ({ before, after }) => [...listUsers(before), ...listUsers(after)],
      wakes: (change) => (change.before !== null && isNews(change, getUse) ? ['addresses'] : []),
    },
    {
      source: 'pools',
      part: getPoolParts,
      toKeys: ({ key }, known) => listSharers(known.poolToVirtualIps.get(key), known),
    },
    { source: 'livingReports', toKeys: listReported },
    { source: 'nodes', part: ({ metadata }) => metadata.labels, toKeys: listConcerned },
    { source: 'namespaces', part: ({ metadata }) => metadata.labels, wakes: () => ['addresses'] },
    { source: 'claims', wakes: () => ['addresses'] },
    { source: 'judgements', wakes: () => ['addresses'] },
  ],
  next: nextServiceStep,
  findReadPath: findVirtualIpPath,
};

/** What others wait for: that a Service which had an address, or has one, asks for something else. */
function wakeWaiting(
  { key, before, after }: Change<Service>,
  { serviceToVirtualIps }: Known,
): readonly WaitsFor[] {
  const [was, is] = [before, after].map((each) => JSON.stringify([each?.spec, listPublishedTexts(each)]));
  const isServed = serviceToVirtualIps.has(key) || listPublishedTexts(before).length > 0;
  return isServed && was !== is ? ['addresses'] : [];
}

/** Who has some VirtualIPs. */
function listSharers(names: Iterable<string> | undefined, { virtualIps }: Known): string[] {
  return [...(names ?? [])].flatMap((name) => listUsers(virtualIps.get(name) ?? null));
}

/** Who has an address of a pool whose addresses the node may hold now, or no longer: what it reports counts for these. */
function listConcerned({ before, after }: Change<Node>, known: Known): string[] {
  return [...known.pools].flatMap(([name, pool]) => {
    const [was, is] = [before, after].map((node) => node !== null && mayHold(pool, node));
    return was === is ? [] : listSharers(known.poolToVirtualIps.get(name), known);
  });
}

/**
 * Who has an address that the node can hold no longer, or again; and who has a port of a protocol of which that is so, or is left to
 * kube-proxy.
 */
function listReported(change: Change<NodeReport>, known: Known): string[] {
  const unheld = listChangedUnheld(change).flatMap((name) => {
    const address = parseAddress(name);
    return address === null ? listSeated(name, known) : [toObjectName(address)];
  });
  const protocols = listDiffering(change.before?.unsupported, change.after?.unsupported);
  const users = [...(protocols.length === 0 ? [] : known.services)].filter(([, { spec }]) =>
    (spec.ports ?? []).some(({ protocol }) => protocols.includes(protocol)),
  );
  return [...listSharers(unheld, known), ...users.map(([key]) => key), ...listSaidOf(change)];
}

/** The Services that the node says something else of than before. */
function listSaidOf({ before, after }: Change<NodeReport>): string[] {
  return (['left', 'dropping'] as const).flatMap((what) => {
    const [was, is] = [before?.[what] ?? {}, after?.[what] ?? {}];
    return [...new Set([...Object.keys(was), ...Object.keys(is)])].filter((key) => was[key] !== is[key]);
  });
}

/** Of a Service that is gone: the addresses that it had are looked at for themselves. */
function nextServiceStep(key: string, world: World): Step {
  const known = world.services.get(key);
  if (known === undefined) return nothing;
  return isServed(known, world.settings.isDefaultClass)
    ? serveService(known, world)
    : releaseService(known, world);
}

/**
 * The next step of a Service that is to have no address of ours: it is being deleted, or its type or class is another one. Its
 * addresses are withdrawn, every living node forgets them, its status loses them, the finalizer goes. What others wrote into the
 * status stays, and a Service that we have nothing in is not touched.
 */
function releaseService(service: Service, world: World): Step {
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
