/** What has to be so after a quiet: by the objects of the API, apart from the product's code. */
import type { World } from './world.ts';
import type { StoredObject } from '../../../support/fakes/object-api.ts';
import { isSelected } from './slice-controller.ts';
import type { Machine } from './machine.ts';
import {
  isTrue,
  isReadyButForUs,
  isNodeReady,
  listOwnGates,
  otherGate,
  listConditions,
} from '../controller/pod-facts.ts';
import { evicted } from './people.ts';
import { gateType } from '../../../../lib/api/vipnat.ts';

/** An endpoint leaves an early EndpointSlice a minute after its gate opened. */
const leftMs = 75_000;

export function findUntruths(world: World): string[] {
  const services = world.traffic.listServices();
  return [
    ...services.flatMap(({ key, vip }) =>
      world.machines.flatMap((machine) => findShareFaults(world, machine, { key, vip })),
    ),
    ...world.machines.flatMap((machine) => findStrays(world, machine)),
    ...findUnserved(world),
    ...findClosedGates(world),
    ...findLeftEarly(world),
    ...findUnnoted(world),
  ];
}

function listPods(world: World, key: string): StoredObject[] {
  const service = world.api.objects.list('Service').get(key);
  if (service === undefined) return [];
  return [...world.api.objects.list('Pod').values()].filter(
    (pod) => isSelected(key, service, pod) && pod.status?.['podIP'] !== undefined,
  );
}

function readWeight({ metadata }: StoredObject): number {
  const text = metadata.annotations?.['vipnat.io/weight'];
  return text === undefined ? 1 : Number(text);
}

/** Every ready pod gets its share, and nobody else gets any. */
function findShareFaults(
  world: World,
  machine: Machine,
  { key, vip }: { readonly key: string; readonly vip: string },
): string[] {
  const all = listPods(world, key).filter(
    (pod) => isTrue(pod, 'Ready') && pod.metadata.deletionTimestamp === undefined,
  );
  const staying = all.filter((pod) => !isTrue(pod, evicted));
  const ready = staying.length > 0 ? staying : all;
  const serving = ready.some((pod) => readWeight(pod) > 0)
    ? ready
    : ready.map((pod) => ({ ...pod, isEven: true }));
  const weigh = (pod: StoredObject) => ('isEven' in pod ? 1 : readWeight(pod));
  const sum = serving.reduce((total, pod) => total + weigh(pod), 0);
  const slots = machine.kernel.readSlots(vip);
  if (!machine.kernel.isAlive) return [`the table of ${machine.name} does not count`];
  if (slots === null) return [`${machine.name} does not balance ${key} at ${vip}`];
  const count = [...slots.values()].reduce((total, one) => total + one, 0);
  const isOff = serving.some((pod) => {
    const share = (slots.get(String(pod.status?.['podIP'])) ?? 0) / Math.max(1, count);
    return Math.abs(share - weigh(pod) / sum) > 0.004;
  });
  const addresses = new Set(serving.map((pod) => String(pod.status?.['podIP'])));
  const isOther = [...slots.keys()].some((address) => !addresses.has(address));
  if (!isOff && !isOther) return [];
  const wanted = serving.map((pod) => `${String(pod.status?.['podIP'])}: ${weigh(pod)}`);
  const got = [...slots].map(([address, one]) => `${address}: ${one}`);
  return [
    `the shares of ${key} on ${machine.name} are ${got.join(', ')}, and ought to be ${wanted.join(', ')}`,
  ];
}

/** Connections that lead to nobody, and addresses that are no Service's. Those of a pod that its Service selects no more go on while it runs. */
function findStrays(world: World, { kernel, name }: Machine): string[] {
  const services = world.traffic.listServices();
  const isKnown = new Set(services.map(({ vip }) => vip));
  const strays = kernel.connections.flatMap(({ service, vip, address, pod }) => {
    const isSelectedStill = listPods(world, service).some((one) => one.status?.['podIP'] === address);
    const isPresent = isSelectedStill || world.kubernetes.uidToPod.has(pod ?? '');
    const isServed = services.some((one) => one.key === service && one.vip === vip);
    return isPresent && isServed
      ? []
      : [`an open connection of ${service} at ${vip} leads to ${address} on ${name}, which is gone`];
  });
  const lost = kernel.vips
    .filter((vip) => !isKnown.has(vip))
    .map((vip) => `${name} balances ${vip}, which is nobody's`);
  return [...new Set([...strays, ...lost])];
}

function findUnserved(world: World): string[] {
  const served = new Set(world.traffic.listServices().map(({ key }) => key));
  return [...world.api.objects.list('Service')]
    .filter(
      ([key, { spec, metadata }]) =>
        spec?.['type'] === 'LoadBalancer' && metadata.deletionTimestamp === undefined && !served.has(key),
    )
    .map(([key]) => `${key} has no address`);
}

function findClosedGates(world: World): string[] {
  return [...world.api.objects.list('Pod')].flatMap(([key, pod]) =>
    pod.metadata.deletionTimestamp === undefined &&
    isReadyButForUs(pod) &&
    isNodeReady(world.api.objects.list('Node').get(String(pod.spec?.['nodeName']))) &&
    !isTrue(pod, evicted) &&
    listOwnGates(pod).some((type) => !isTrue(pod, type))
      ? [`a gate of ${key} stays closed`]
      : [],
  );
}

function findLeftEarly(world: World): string[] {
  const { objects } = world.api;
  const uidToPod = new Map([...objects.list('Pod').values()].map((pod) => [pod.metadata.uid, pod]));
  return [...objects.list('EndpointSlice')].flatMap(([key, { endpoints = [] }]) =>
    key.endsWith('-k8s')
      ? []
      : endpoints.flatMap((endpoint) => {
          const { uid, name } = endpoint['targetRef'] as { uid: string; name: string };
          const pod = uidToPod.get(uid);
          if (pod === undefined) return [`the early EndpointSlice ${key} has ${name}, which is gone`];
          return isDone(world, pod) ? [`the early EndpointSlice ${key} keeps ${name}`] : [];
        }),
  );
}

/** Commands know the types of gates from there while no controller leads. */
function findUnnoted({ api }: World): string[] {
  const lease = api.objects.list('Lease').get('vipnat-system/vipnat-controller');
  const noted = lease?.metadata.annotations?.['vipnat.io/gate-types'];
  return noted === JSON.stringify([otherGate, gateType].sort())
    ? []
    : [`the Lease of controllers notes ${String(noted)}`];
}

/** Whether nothing is left to say of it early. */
function isDone({ clock }: World, pod: StoredObject): boolean {
  const own = new Set(listOwnGates(pod));
  const gates = listConditions(pod.status).filter(({ type }) => own.has(type));
  const now = clock.date().getTime();
  return (
    pod.metadata.annotations?.['vipnat.io/weight'] === undefined &&
    !isTrue(pod, evicted) &&
    pod.metadata.deletionTimestamp === undefined &&
    gates.length === own.size &&
    gates.every(
      ({ status, lastTransitionTime = '' }) =>
        status === 'True' && now - Date.parse(lastTransitionTime) > leftMs,
    )
  );
}
