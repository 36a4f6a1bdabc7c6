import type { Cluster } from './cluster.ts';
import { findSeatFaults } from './seat-faults.ts';
import { isDeleted } from './pod-facts.ts';
import type { SimulatedController } from './controller.ts';
import { mayBeOurs, listIps, toName, listAllUsers } from './invariants.ts';
import {
  services,
  isForUs,
  readRequests,
  type Service,
  type ServiceRequests,
} from '../../../../lib/api/service.ts';
import { finalizer, type AddressPool, addressPools } from '../../../../lib/api/vipnat.ts';
import type { StoredObject } from '../../../support/fakes/object-api.ts';
import { parseAddress, type Address, parseRange, contains } from '../../../../lib/net.ts';

/** Longer than any pool's `reuseAfter`, and a Lease. */
const restSeconds = 150;

/** For so long another program goes on. */
const contestSeconds = 90;

/** A key that is written again and again does not come to rest. */
const maxRounds = 200;

/** All faults end: nodes and one controller work, time passes. Answers what is wrong then. */
export function findLeftovers(cluster: Cluster): string[] {
  const controller = heal(cluster);
  const unserved = contest(cluster, controller);
  if (unserved.length > 0) return unserved;
  const conflicts = findConflicts(cluster, controller);
  cluster.foreignHosts.clear();
  if (!rest(cluster, controller, restSeconds)) return ['it does not come to rest'];
  settle(cluster, controller);
  return [
    ...cluster.complaints,
    ...conflicts,
    ...findSeatFaults(cluster),
    ...controller.listForgotten().map((key) => `nothing says that ${key} is to be looked at`),
    ...findServiceFaults(cluster),
    ...findVirtualIpFaults(cluster),
    ...[...cluster.api.list('AddressPool')]
      .filter(([name, pool]) => isDeleted(pool) && !isPoolUsed(cluster, name))
      .map(([name]) => `the pool ${name} is deleted and stays`),
  ];
}

/** Every node works, and one controller leads. */
function heal(cluster: Cluster): SimulatedController {
  for (const controller of cluster.controllers.slice(1)) cluster.kill(controller);
  const [controller = cluster.lead()] = cluster.controllers;
  controller.dateOffsetMs = 0;
  for (const node of cluster.nodes) if (!cluster.api.list('Node').has(node.name)) cluster.register(node);
  cluster.mend();
  return controller;
}

/** Another program rewrites a status still: whoever has an address, and is not that one, keeps it. */
function contest(cluster: Cluster, controller: SimulatedController): string[] {
  const { rewriter } = cluster;
  if (rewriter === null) return [];
  const complaint = ['S8: it does not come to rest'];
  if (!rest(cluster, controller, 11)) return complaint;
  const served = listServed(cluster).filter((key) => key !== rewriter.key);
  if (!rest(cluster, controller, contestSeconds - 11)) return complaint;
  cluster.rewriter = null;
  const now = listServed(cluster);
  return served
    .filter((key) => !now.includes(key))
    .map((key) => `${key} loses its address while another program rewrites ${rewriter.kind}/${rewriter.key}`);
}

/** Services with an address that no other host has. */
function listServed(cluster: Cluster): string[] {
  const services = [...cluster.api.list('Service')].filter(([, service]) => mayBeOurs(service));
  const isGood = (ip: string) => !cluster.foreignHosts.has(ip);
  return services.filter(([, service]) => listIps(service).some(isGood)).map(([key]) => key);
}

/** Other hosts have their addresses still: none of these is published for long. */
function findConflicts(cluster: Cluster, controller: SimulatedController): string[] {
  if (!rest(cluster, controller, 2)) return ['it does not come to rest'];
  const services = [...cluster.api.list('Service')].filter(([, service]) => mayBeOurs(service));
  return services.flatMap(([key, service]) =>
    listIps(service)
      .filter((ip) => cluster.foreignHosts.has(ip))
      .map((ip) => `${key} publishes ${ip}, and another host answers for it`),
  );
}

/** Seconds in which all that can happen does. Answers whether each ends. */
function rest(cluster: Cluster, controller: SimulatedController, seconds: number): boolean {
  for (let second = 0; second < seconds; second += 1) {
    if (!settle(cluster, controller)) return false;
    for (const node of cluster.nodes) node.report();
    cluster.pass(1000);
  }
  return true;
}

/** All that can happen now does. Answers whether it ends. */
function settle(cluster: Cluster, controller: SimulatedController): boolean {
  for (let round = 0; round < maxRounds; round += 1) {
    const { version } = cluster.api;
    for (const node of cluster.nodes) node.program(Infinity);
    controller.hearAll();
    for (const key of controller.due) controller.take(key);
    while (controller.inFlight > 0) controller.proceed(0, 'done');
    const isQuiet = cluster.api.version === version && controller.due.length === 0;
    if (isQuiet) return true;
    for (const node of cluster.nodes) node.report();
  }
  return false;
}

function findServiceFaults(cluster: Cluster): string[] {
  return [...cluster.api.list('Service')].flatMap(([key, stored]) => {
    const service = services.schema.parse(stored);
    if (isDeleted(stored)) return [`${key} is deleted and stays`];
    const hasFinalizer = stored.metadata.finalizers?.includes(finalizer) === true;
    if (!isForUs(service, cluster.isDefaultClass)) return hasFinalizer ? [`${key} keeps the finalizer`] : [];
    const missing = findMissing(cluster, key, stored);
    return missing === null ? [] : [missing];
  });
}

/** A Service without an address has none for a reason that the objects bear out. */
function findMissing(cluster: Cluster, key: string, stored: StoredObject): string | null {
  const requests = readRequests(services.schema.parse(stored));
  const ips = listIps(stored);
  for (const ip of ips) {
    const virtualIp = cluster.api.list('VirtualIP').get(toName(ip));
    if (virtualIp === undefined || !listAllUsers(virtualIp).some(({ uid }) => uid === stored.metadata.uid))
      return `${key} publishes ${ip}, which is not its own`;
  }
  if (requests.problem !== null) return null;
  const lacking = requests.families.filter(
    (family) => !ips.some((ip) => parseAddress(ip)?.family === family),
  );
  const servable = requests.families.map((family) => listFree(cluster, stored, family));
  if (
    requests.isAllOrNothing &&
    lacking.some((family) => servable[requests.families.indexOf(family)]?.length === 0)
  )
    return null;
  const [family] = lacking.filter((each) => (servable[requests.families.indexOf(each)]?.length ?? 0) > 0);
  return family === undefined
    ? null
    : `${key} has no ${family} address, though it could have ${servable[requests.families.indexOf(family)]?.join()}`;
}

/** Addresses that a Service could have for itself, by what the objects say. Judged apart from the product's own code, and only where that is simple. */
function listFree(cluster: Cluster, stored: StoredObject, family: string): string[] {
  const service = services.schema.parse(stored);
  const requests = readRequests(service);
  const pools = listPools(cluster, service, requests);
  const requested = requests.addresses[family as 'ipv4']?.text;
  return everyAddress.filter((text) => {
    const address = parseAddress(text);
    if (address?.family !== family || (requested !== undefined && requested !== text)) return false;
    const isInPool = pools.some(({ spec }) => spec.addresses.some((range) => isIn(range, address)));
    return isInPool && !isTaken(cluster, text, stored.metadata.uid);
  });
}

function listPools(
  cluster: Cluster,
  { metadata: { namespace } }: Service,
  { pool }: ServiceRequests,
): AddressPool[] {
  const all = [...cluster.api.list('AddressPool').values()].map((each) => addressPools.schema.parse(each));
  return all.filter(({ metadata, spec, status }) => {
    const isAccepted = status?.conditions?.some(
      ({ type, status: is }) => type === 'Accepted' && is === 'True',
    );
    const isAsked = pool === null ? spec.autoAssign : pool === metadata.name;
    const team = spec.namespaceSelector?.matchLabels?.['team'] ?? namespace;
    return isAccepted === true && isAsked && team === namespace && hasNodes(status);
  });
}

function hasNodes(status: AddressPool['status']): boolean {
  return status?.seats?.some(({ nodes }) => nodes.length > 0) === true;
}

function isIn(range: string, address: Address): boolean {
  const parsed = parseRange(range);
  return parsed !== null && contains(parsed, address);
}

function isTaken(cluster: Cluster, text: string, uid: string): boolean {
  const virtualIp = cluster.api.list('VirtualIP').get(toName(text));
  const others = virtualIp === undefined ? [] : listAllUsers(virtualIp).filter((user) => user.uid !== uid);
  return (
    others.length > 0 ||
    [...cluster.api.list('Service').values()].some(
      (each) =>
        listIps(each).includes(text) || (each.metadata.uid !== uid && listExternal(each).includes(text)),
    )
  );
}

function listExternal({ spec }: StoredObject): readonly string[] {
  return (spec?.['externalIPs'] ?? []) as readonly string[];
}

const everyAddress = [
  ...Array.from({ length: 12 }, (_, index) => `10.0.9.${index + 3}`),
  ...['fd00::10', 'fd00::11', 'fd00::12'],
];

function findVirtualIpFaults(cluster: Cluster): string[] {
  return [...cluster.api.list('VirtualIP')].flatMap(([name, virtualIp]) => {
    const users = listAllUsers(virtualIp);
    if (users.length === 0) return [`${name} belongs to nobody and stays`];
    const { uid, finalizers } = virtualIp.metadata;
    const isUnkept = cluster.unkept.has(uid) && finalizers?.includes(finalizer) !== true;
    return [
      ...(isUnkept ? [`${name} has no finalizer, and nobody gives it one`] : []),
      ...users
        .filter(({ namespace, name: service, uid }) => {
          const stored = cluster.api.list('Service').get(`${namespace}/${service}`);
          return (
            stored?.metadata.uid !== uid || !isForUs(services.schema.parse(stored), cluster.isDefaultClass)
          );
        })
        .map((user) => `${name} is still given to ${user.namespace}/${user.name}`),
      ...cluster.nodes
        .filter((node) =>
          (virtualIp.spec?.['services'] as { uid: string }[]).some(({ uid }) => !node.serves(name, uid)),
        )
        .map((node) => `${node.name} does not serve ${name}`),
    ];
  });
}

function isPoolUsed(cluster: Cluster, name: string): boolean {
  return [...cluster.api.list('VirtualIP').values()].some(({ spec }) => spec?.['pool'] === name);
}
