import { systemClock } from '../../lib/control/clock.ts';
import { type VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { formatServiceJson, formatServicesJson } from '../format/json/services-json.ts';
import { formatService } from '../format/screens/service.ts';
import { formatServices } from '../format/screens/services.ts';
import { formatErrorLine } from '../format/text/error-text.ts';
import { type ServicesContext } from '../grammar/command-context.ts';
import { createServicesApi, type ServicesApi } from '../services/api-services.ts';
import { isInTrouble } from '../services/view-services.ts';
import { findClusterRoute } from '../services/cluster-route.ts';
import { clearScreen, waitForNext } from '../format/text/wait-for-next.ts';

/**
 * `vipnat services`: each Service with its address, who holds it and why it does not work; or one of them with all there is to know. By
 * the API alone. With --watch it ends when it is stopped or nobody reads its output any more, and an API that is away is told.
 * @throws VipnatError API_CREDENTIALS_INVALID without credentials, SERVICE_NOT_FOUND, and those of a request to the API
 */
export async function services(context: ServicesContext): Promise<number> {
  const { config, options, screen, stdout, stderr } = context;
  const { watchMs, namespace } = options;
  const api = createServicesApi({
    route: findClusterRoute(config, 'services'),
    clock: systemClock,
    namespace,
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
  { options: { service, json }, screen }: ServicesContext,
): Promise<{ readonly text: string; readonly isTrouble: boolean }> {
  const nowMs = systemClock.date().getTime();
  if (service === null) {
    const view = await api.listAll();
    const text = json ? formatServicesJson(view) : formatServices(view, nowMs, screen());
    return { text, isTrouble: isInTrouble(view) };
  }
  const details = await api.find(service);
  const text = json ? formatServiceJson(details) : formatService(details, nowMs, screen());
  return { text, isTrouble: isInTrouble(details.view) };
}
