import { systemClock } from '../../lib/control/clock.ts';
import { type VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { formatServiceJson, formatServicesJson } from '../format/json/services-json.ts';
import { formatService } from '../format/screens/service.ts';
import { formatServices } from '../format/screens/services.ts';
import { formatErrorLine } from '../format/text/error-text.ts';
import { quoteText } from '../../config/setting.ts';
import { type NamespacedName } from '../../lib/kubernetes/api-object.ts';
import { type CommandContext, defineCommand, type Words } from '../command/command.ts';
import { color, json, watch } from '../command/shared-flags.ts';
import { type Flag, list, type OptionsOf, text, toggle } from '../flags/flag.ts';
import { servicesNamespace } from '../generate/manifest/options.ts';
import { checkGates, checkNamespace } from '../generate/manifest/problems.ts';
import { createServicesApi, type ServicesApi } from '../services/api-services.ts';
import { isInTrouble } from '../services/view-services.ts';
import { findClusterRoute } from '../wiring/cluster-route.ts';
import { clearScreen, waitForNext } from '../wiring/wait-for-next.ts';

/** What it does instead of printing. */
const releaseWord = 'release-gates';

const isRelease = ([word]: readonly string[]) => word === releaseWord;

/** From one screen of --watch to the next: each lists all Services anew. */
const watchFlag = watch(2000);

const flags = {
  namespace: text(
    'NAME',
    `where the balancers run (default: ${servicesNamespace}); with release-gates, the namespace of the pods (default: all)`,
  ),
  json,
  watch: { ...watchFlag, read: readWatch },
  yes: forRelease(toggle('for release-gates: open the gates; without it, print only what it would write')),
  gate: forRelease(
    list('TYPE', 'for release-gates: also open readiness gates of this type; repeat the flag for more'),
  ),
  color,
};

function readWatch(...[given, reading]: Parameters<Flag['read']>): number | null {
  const watchMs = watchFlag.read(given, reading);
  if (!isRelease(reading.words)) return watchMs;
  if (watchMs !== null) reading.report(`--watch does not go with ${releaseWord}. Leave it out`);
  return null;
}

function forRelease<Value>(flag: Flag<Value>): Flag<Value> {
  const example = `Example: vipnat services ${releaseWord}`;
  return {
    ...flag,
    read: (given, reading) => {
      if (given === undefined || isRelease(reading.words)) return flag.read(given, reading);
      reading.report(`${reading.flag} is for vipnat services ${releaseWord} only. ${example}`);
      return flag.read(undefined, reading);
    },
  };
}

/** The Service to print; null for all. */
const words: Words<{ readonly service: NamespacedName | null }> = {
  count: () => 1,
  choices: [releaseWord],
  read: (given, { isUnclear, report }) => {
    const [word] = given;
    if (word === undefined || isRelease(given)) return { service: null };
    const service = readName(word);
    if (service === null && !isUnclear) report(explainName(word));
    return { service };
  },
};

type ServicesContext = CommandContext<OptionsOf<typeof flags> & { readonly service: NamespacedName | null }>;

/** `vipnat services`. */
export const services = defineCommand({
  usage: '[NS/NAME|release-gates] [options]',
  help: `
Examples:
  vipnat services --kubeconfig /etc/kubernetes/admin.conf
  vipnat services default/web        one Service, with its pods, nodes and events
  vipnat services --watch
  vipnat services --json
  vipnat services release-gates      what opens the gates of pods that wait
  vipnat services release-gates --yes --namespace shop

services reads the Kubernetes API and asks no node. It lists the Services of vipnat,
and those without a class that have no address. The reason is printed below a Service
that does not work. release-gates opens readiness gates of vipnat that are not open, for
when no controller runs any more. Without --yes it prints what it would write. New pods
wait as before, until the gate is gone from their Deployments.
Exit status: 0 all Services work, 1 failed, 2 one does not, or no controller leads.
release-gates: 0 no pod waits, 1 failed or pods are left, 2 without --yes, pods wait.
78 bad configuration.`,
  flags,
  words,
  heeds: ['kubeconfig', 'logLevel'],
  check: ({ options: { namespace, gate } }) => [
    ...checkNamespace(namespace ?? servicesNamespace, servicesNamespace),
    ...checkGates(gate),
  ],
  run: async (context) => {
    if (!isRelease(context.words)) return await printServices(context);
    const { namespace: podNamespace, yes: isConfirmed, gate: gates, json: isJson } = context.options;
    const { releaseGates } = await import('./release-gates.ts');
    return await releaseGates({ ...context, options: { podNamespace, isConfirmed, gates, json: isJson } });
  },
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

/**
 * Each Service with its address, who holds it and why it does not work; or one of them with all there is to know. By
 * the API alone. With --watch it ends when it is stopped or nobody reads its output any more, and an API that is away is told.
 * @throws VipnatError API_CREDENTIALS_INVALID without credentials, SERVICE_NOT_FOUND, and those of a request to the API
 */
async function printServices(context: ServicesContext): Promise<number> {
  const { config, options, screen, stdout, stderr } = context;
  const { watch: watchMs, namespace } = options;
  const api = createServicesApi({
    route: findClusterRoute(config, 'services'),
    clock: systemClock,
    namespace: namespace ?? servicesNamespace,
  });
  if (watchMs === null) {
    const { text, isTrouble } = await look(api, context);
    stdout(text);
    return isTrouble ? exitStatuses.found : exitStatuses.done;
  }
  for (;;) {
    try {
      const { text } = await look(api, context);
      stdout(screen().isTerminal ? `${clearScreen}${text}` : text);
    } catch (error) {
      const { code, message } = error as VipnatError;
      stderr(`${formatErrorLine(code, message)}\n`);
    }
    if ((await waitForNext(watchMs)) === 'reader gone') return exitStatuses.readerGone;
  }
}

async function look(
  api: ServicesApi,
  { options: { service, json: isJson }, screen }: ServicesContext,
): Promise<{ readonly text: string; readonly isTrouble: boolean }> {
  const nowMs = systemClock.date().getTime();
  if (service === null) {
    const view = await api.listAll();
    const text = isJson ? formatServicesJson(view) : formatServices(view, nowMs, screen());
    return { text, isTrouble: isInTrouble(view) };
  }
  const details = await api.find(service);
  const text = isJson ? formatServiceJson(details) : formatService(details, nowMs, screen());
  return { text, isTrouble: isInTrouble(details.view) };
}
