import { podVariable } from '../config/environment.ts';
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type Config } from '../config/config.ts';
import { Controller } from './process/controller.ts';
import { ControllerLog } from './report/controller-log.ts';
import { WebhookLog } from './webhook/webhook-log.ts';
import { readWebhookFacts, type WebhookFacts } from './webhook/trusted-end.ts';
import { createControllerPages, getBehindMs } from './report/pages.ts';
import { reserveAddress } from './cache/judge-pools.ts';
import { parseAddress } from '../lib/address/address.ts';
import { type Endpoint } from '../lib/address/endpoint.ts';
import { systemClock } from '../lib/control/clock.ts';
import { systemRandom } from '../lib/control/random.ts';
import { drivers } from '../lib/devices/drivers.ts';
import { type StatusServer } from '../lib/http/status-server.ts';
import { findVrid } from '../lib/keepalived/vrid.ts';
import { findAccess } from '../lib/kubernetes/access.ts';
import { RoutedClient } from '../lib/kubernetes/object-client.ts';
import { ApiRoute } from '../lib/kubernetes/route.ts';
import { toGateTypes } from '../lib/services/gate-types.ts';
import { createLogger, type Logger } from '../lib/telemetry/logger.ts';
import { EventWriter } from '../lib/telemetry/writer.ts';
import { VipnatError } from '../lib/text/errors.ts';
import { exitStatuses } from '../lib/text/exit-status.ts';
import { type ControllerMeter, createControllerMeter } from './report/meter.ts';
import { createProbeServer } from '../lib/http/probe-server.ts';
import { version } from '../lib/text/version.ts';
import { waitForSignal } from '../lib/control/process.ts';
import { createPodHeartbeat } from '../lib/telemetry/heartbeat.ts';

/** What `vipnat controller` is asked for, checked. */
export interface ControllerOptions {
  /** Where the Leases are. */
  readonly namespace: string;
  /** Whether Services without a class are served, too. */
  readonly isDefaultClass: boolean;
  /** The name of the device of Services without a class that have annotations of another controller; null for none. */
  readonly defaultDevice: string | null;
  /** Further types of readiness gates. */
  readonly gates: readonly string[];
  /** Where the webhook is served; null for nowhere. */
  readonly webhookPort: string | null;
}

/**
 * `vipnat controller`: runs until SIGTERM or SIGINT, and then gives its Lease back.
 * @throws VipnatError API_CREDENTIALS_INVALID where there are no credentials
 */
export async function runController(config: Config, options: ControllerOptions): Promise<number> {
  const readAccess = findAccess(config.kubeconfig, process.env);
  if (readAccess === null) throw lacksCredentials();
  const [clock, random] = [systemClock, systemRandom];
  const logger = await createLogger(config);
  // Nothing is known beside the credentials: the controller need not be on a master.
  const route = new ApiRoute(readAccess, [], null);
  const ending = new AbortController();
  const events = new EventWriter({ route, clock, random, logger, node: hostname().toLowerCase() });
  const meter = config.listen === null ? null : await createControllerMeter();
  const controller = new Controller(
    {
      ...{ route, clock, random },
      onDrained: (seconds) => meter?.time(seconds),
      client: new RoutedClient(route, clock, ending.signal),
      findDriver: async (name) => (Object.hasOwn(drivers, name) ? ((await drivers[name]?.()) ?? null) : null),
      log: new ControllerLog(logger, events, clock),
    },
    {
      namespace: options.namespace,
      isDefaultClass: options.isDefaultClass,
      gateTypes: toGateTypes(options.gates),
      ...(options.defaultDevice === null ? {} : { defaultDevice: options.defaultDevice }),
      identity: `${hostname()}_${randomUUID()}`,
      reserved: reserve(config.vips),
      ...(options.webhookPort === null
        ? {}
        : { webhook: { port: Number(options.webhookPort), log: new WebhookLog(logger) } }),
    },
  );
  const server = createServer(config, meter, controller, logger);
  logger.info(`vipnat controller ${version} runs, pid ${process.pid}`);
  await server?.start();
  const heartbeat = createPodHeartbeat(process.env[podVariable] ?? null, logger, () =>
    getBehindMs(controller.state),
  );
  controller.start();
  try {
    await heartbeat?.start();
    logger.info(`${await waitForSignal()}: the controller stops. Addresses stay as they are`);
    await controller.stop();
    await events.stop();
    return exitStatuses.done;
  } finally {
    heartbeat?.stop();
    ending.abort();
    await server?.stop();
  }
}

function lacksCredentials(): VipnatError {
  const rule = 'the controller needs credentials for the Kubernetes API';
  return new VipnatError(
    'API_CREDENTIALS_INVALID',
    `${rule}. Example: --kubeconfig /etc/vipnat/controller.conf`,
  );
}

/** What the virtual IPs of the API have. One that has no VRID by its address was given one by hand, which is not known here. */
function reserve(vips: readonly Endpoint[]): ControllerReserved {
  const addresses = vips.map(({ address }) => parseAddress(address)).filter((one) => one !== null);
  const ranges = addresses.map(({ text }) => reserveAddress(text, "the API's virtual IP"));
  const vrids = addresses.map(findVrid).filter((vrid) => vrid !== null);
  return { ranges: ranges.filter((range) => range !== null), vrids: new Set(vrids) };
}

type ControllerReserved = ConstructorParameters<typeof Controller>[1]['reserved'];

function createServer(
  { listen }: Config,
  meter: ControllerMeter | null,
  controller: Controller,
  logger: Logger,
): StatusServer | null {
  if (listen === null || meter === null) return null;
  const pages = createControllerPages({ state: () => controller.state, metrics: meter.metrics });
  return createProbeServer(listen, pages, logger);
}

/** What API servers know of the webhook; null where it is not configured. Rejects as listObjects does. */
export async function inspectWebhook(route: ApiRoute): Promise<WebhookFacts | null> {
  return await readWebhookFacts(route, systemClock);
}
