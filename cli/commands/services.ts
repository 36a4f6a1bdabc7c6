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
import { type OptionsOf, text } from '../flags/flag.ts';
import { servicesNamespace } from '../generate/manifest/options.ts';
import { checkNamespace } from '../generate/manifest/problems.ts';
import { createServicesApi, type ServicesApi } from '../services/api-services.ts';
import { isInTrouble } from '../services/view-services.ts';
import { findClusterRoute } from '../services/cluster-route.ts';
import { clearScreen, waitForNext } from '../format/text/wait-for-next.ts';

const flags = {
  namespace: text('NAME', `where the balancers run (default: ${servicesNamespace})`),
  json,
  // From one screen to the next: each lists all Services anew.
  watch: watch(2000),
  color,
};

/** The Service to print; null for all. */
const words: Words<{ readonly service: NamespacedName | null }> = {
  count: () => 1,
  read: ([word], { isUnclear, report }) => {
    if (word === undefined) return { service: null };
    const service = readName(word);
    if (service === null && !isUnclear) report(explainName(word));
    return { service };
  },
};

type ServicesContext = CommandContext<OptionsOf<typeof flags> & { readonly service: NamespacedName | null }>;

/** `vipnat services`. */
export const services = defineCommand({
  usage: '[NS/NAME] [options]',
  help: `
Examples:
  vipnat services --kubeconfig /etc/kubernetes/admin.conf
  vipnat services default/web        one Service, with its pods, nodes and events
  vipnat services --watch
  vipnat services --json

services reads the Kubernetes API and asks no node. It lists the Services of vipnat,
and those without a class that have no address. The reason is printed below a Service
that does not work.
Exit status: 0 all Services work, 1 failed, 2 one does not, or no controller leads,
78 bad configuration.`,
  flags,
  words,
  heeds: ['kubeconfig', 'logLevel'],
  check: ({ options: { namespace } }) => checkNamespace(namespace ?? servicesNamespace, servicesNamespace),
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
