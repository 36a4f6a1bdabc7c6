import type { ServicesView, ServiceView, ClusterView } from '../services/view.ts';
import { formatDocument, quoteText } from '../../lib/text.ts';
import type { ServiceDetails, ServicesApi } from '../services/read.ts';
import { listNodes, isInTrouble } from '../services/read-view.ts';
import {
  json,
  watch,
  color,
  type Words,
  type CommandContext,
  type OptionsOf,
  defineCommand,
  systemNamespace,
  servicesNamespace,
  text,
  toggle,
  checkNamespace,
  context,
} from '../command.ts';
import type { NamespacedName } from '../../lib/kubernetes/client.ts';
import { systemClock } from '../../lib/clock.ts';
import { printScreens, showFailure } from '../output.ts';

/** `vipnat services --json`, version 1: fields are added, never renamed. Ends with a newline. */
export function formatServicesJson(view: ServicesView): string {
  return formatDocument({ version: 1, services: view.services.map(describe), ...describeCluster(view) });
}

/** `vipnat services NAMESPACE/NAME --json`, version 1: the same of one Service, and more. Ends with a newline. */
export function formatServiceJson({ service, view, events }: ServiceDetails): string {
  return formatDocument({
    version: 1,
    service: {
      ...describe(service),
      conditions: service.service.status?.conditions ?? [],
      endpoints: service.pods.map(({ address, ports, state, isServingLast, gate, node, draining }) => ({
        ...{ address, ports: ports === '' ? [] : ports.split(',').map(Number), state },
        ...{ serving: state === 'ready' || isServingLast, waitingForGate: gate !== null },
        ...{ gate, node, draining },
      })),
      programmed: listNodes(service, view.reports).map(({ node, report, isProgrammed }) => ({
        ...{ node, living: report?.isLiving === true, programmed: isProgrammed },
      })),
    },
    events,
    ...describeCluster(view),
  });
}

function describe({ service, state, reason, why, since, addresses, pods, devices }: ServiceView): object {
  const { namespace, name } = service.metadata;
  const count = (wanted: string) => pods.filter((pod) => pod.state === wanted).length;
  const waitingForGates = pods.filter(({ gate }) => gate !== null).length;
  return {
    ...{ namespace, name, state, reason, why, since },
    addresses: addresses.map(({ address, isPublished, seat, virtualIp, seatHolders, nodes, device }) => ({
      ...{ address, published: isPublished, pool: virtualIp?.spec.pool ?? null },
      ...{ seat, seatHolders, nodes, device },
    })),
    devices: devices.map(({ name: device, view, draining }) => ({
      ...{ name: device, exists: view !== null },
      draining: draining.map(({ member, since: from, sessions = null }) => ({
        member,
        since: from,
        sessions,
      })),
    })),
    pods: { ready: count('ready'), ending: count('ending'), notReady: count('not ready'), waitingForGates },
  };
}

function describeCluster({ controller, reports, pools, devices }: ClusterView): object {
  const { isLeading, leader, msSinceRenewal } = controller;
  return {
    controller: { leading: isLeading, leader, secondsSinceRenewal: toSeconds(msSinceRenewal) },
    pools: pools.map(({ metadata: { name }, status }) => ({ name, conditions: status?.conditions ?? [] })),
    devices: devices.map(({ name, driver, units, balancers, draining, foreignChanges, ...condition }) => ({
      ...{ name, driver, ready: condition.isReady, reason: condition.reason, why: condition.why },
      since: condition.since,
      units: units.map(({ unit, role, isInSync, why }) => ({ unit, role, inSync: isInSync ?? null, why })),
      ...{ services: balancers, draining, foreignChanges },
    })),
    nodes: reports.map(({ node, mode, isLiving, msSinceRenewal: ms, seats, inUse }) => ({
      ...{ node, mode, living: isLiving, secondsSinceRenewal: toSeconds(ms), seats, addressesInUse: inUse },
    })),
  };
}

function toSeconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000;
}

const flags = {
  namespace: text('NAME', 'only the Services of this namespace; also -n'),
  allNamespaces: toggle('the Services of all namespaces, which is the default; also -A'),
  systemNamespace,
  context,
  json,
  // From one screen to the next: each lists all Services again.
  watch: watch(2000),
  color,
};

/** The Service to print; null for all. */
const words: Words<{ readonly service: NamespacedName | null }> = {
  read: ([word], { all, isUnclear, report }) => {
    if (word === undefined) return { service: null };
    const namespace = typeof all['namespace'] === 'string' ? all['namespace'] : null;
    const service = readName(word.includes('/') ? word : `${namespace ?? 'default'}/${word}`);
    if (service !== null && namespace !== null && service.namespace !== namespace)
      report(`${word} is in another namespace than --namespace ${namespace}. Leave one out`);
    if (service === null && !isUnclear) report(explainName(word));
    return { service };
  },
};

type ServicesContext = CommandContext<OptionsOf<typeof flags> & { readonly service: NamespacedName | null }>;

/** `vipnat services`. */
export const services = defineCommand({
  usage: '[[NS/]NAME] [options]',
  help: `
Examples:
  vipnat services --context production
  vipnat services default/web        one Service, with its pods, nodes and events
  vipnat services -n shop            only the Services of a namespace
  vipnat services --watch
  vipnat services --json

services reads the Kubernetes API, with the credentials that kubectl takes, and asks no
node. It lists the Services of vipnat, and those without a class that have no address.
The reason is printed below a Service that does not work.
Exit status: 0 all Services work, 1 failed, 2 one does not, or no controller leads,
78 bad configuration.`,
  flags,
  words,
  configOptions: ['kubeconfig', 'logLevel'],
  check: ({ options }) => [
    ...(options.allNamespaces && options.namespace !== null
      ? ['--all-namespaces and --namespace exclude each other. Leave one out']
      : []),
    ...checkNamespace(options.namespace, 'default'),
    ...checkNamespace(options.systemNamespace, servicesNamespace, '--system-namespace'),
  ],
  run: printServices,
});

/** Names of namespaces and Services (RFC 1123, a label). */
function readName(word: string): NamespacedName | null {
  const label = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?';
  const [, namespace, name] = new RegExp(`^(${label})/(${label})$`).exec(word) ?? [];
  return namespace === undefined || name === undefined ? null : { namespace, name };
}

function explainName(word: string): string {
  const name = /^[a-z0-9-]{1,63}$/.test(word) ? word : 'web';
  return `${quoteText(word)} is not NAMESPACE/NAME. Example: vipnat services default/${name}`;
}

/** With --watch it reports an unreachable API, and continues. */
async function printServices(context: ServicesContext): Promise<number> {
  const { config, options } = context;
  // Help and mistakes load this file, too.
  const { createServicesApi, findClusterRoute, findSystemNamespace } = await import('../services/read.ts');
  const route = findClusterRoute(config, options.context, systemClock);
  const namespace = await findSystemNamespace(route, systemClock, options.systemNamespace);
  const api = createServicesApi(route, systemClock, namespace ?? servicesNamespace);
  return await printScreens(options.watch, context, () =>
    show(api, context).catch((error: unknown) => showFailure(options.watch, error)),
  );
}

async function show(api: ServicesApi, { options, screen }: ServicesContext) {
  const { service, json: isJson, namespace } = options;
  const { formatServices, formatService } = await import('../screens/services.ts');
  const nowMs = systemClock.date().getTime();
  if (service === null) {
    const all = await api.listAll();
    const isAsked = (one: ServiceView) => [null, one.service.metadata.namespace].includes(namespace);
    const view = { ...all, services: all.services.filter(isAsked) };
    const text = () => (isJson ? formatServicesJson(view) : formatServices(view, nowMs, screen()));
    return { text, isTrouble: isInTrouble(view) };
  }
  const details = await api.find(service);
  const text = () => (isJson ? formatServiceJson(details) : formatService(details, nowMs, screen()));
  return { text, isTrouble: isInTrouble(details.view) };
}
