import { setFlagsFromString } from 'node:v8';
import { activityPath, toActivity } from '../../balancer/process/activity.ts';
import { balancerRole } from '../../balancer/process/presence.ts';
import { usualRunFolder } from '../../balancer/seats/seat-files.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { type StatusServer } from '../../lib/http/status-server.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { createLogger, type Logger } from '../../lib/telemetry/logger.ts';
import { address } from '../../config/values.ts';
import { type Address } from '../../lib/address/address.ts';
import { type CommandContext, defineCommand } from '../command/command.ts';
import { bySchema, list, orElse, text } from '../flags/flag.ts';
import { probePortMeaning, servicesNamespace } from '../generate/manifest/options.ts';
import { findProbePortProblems, readProbePort } from '../generate/manifest/probe-port.ts';
import { checkNamespace } from '../generate/manifest/problems.ts';
import { createBalancerPages } from '../wiring/balancer-pages.ts';
import { nameNode } from '../wiring/node-name.ts';
import { findRoute } from '../wiring/one-shot-host.ts';
import { NodeBalancer, type NodeBalancerOptions } from '../wiring/node-balancer.ts';
import { createPodHeartbeat } from '../wiring/pod-heartbeat.ts';
import { createProbeServer } from '../wiring/probe-server.ts';
import { takePlace } from '../wiring/take-place.ts';
import { waitForSignal } from '../wiring/wait-for-signal.ts';
import { version } from '../wiring/version.ts';

type BalancerContext = Pick<CommandContext<BalancerOptions>, 'config' | 'options' | 'given'>;

interface BalancerOptions {
  /** Where vipnat's objects of the Kubernetes API are that belong to a namespace. */
  readonly namespace: string;
  /** At which other nodes reach this one, in canonical text; empty to find out. */
  readonly nodeAddresses: readonly string[];
  /** The TCP port at which other nodes are asked whether they live; 0 for not at all. */
  readonly probePort: number;
}

const readAddress = bySchema<Address | null>(address, null, '10.0.0.21');

const flags = {
  namespace: text(
    'NAME',
    `where vipnat's own objects are (default: ${servicesNamespace})`,
    orElse(servicesNamespace),
  ),
  nodeAddress: list(
    'ADDR,…',
    'the address of this node for other nodes; repeat the flag for more (default: by its default route)',
    // The downward API gives all addresses of a pod's host in one text, and none before it has any.
    (texts, reading) =>
      texts
        .flatMap((each) => each.split(','))
        .filter((each) => each !== '')
        .flatMap((each) => readAddress(each, reading)?.text ?? []),
  ),
  nodeProbePort: text('PORT', probePortMeaning, (given, { report }) => {
    findProbePortProblems(given ?? null).forEach(report);
    return readProbePort(given ?? null);
  }),
};

/** `vipnat balancer`. */
export const balancer = defineCommand({
  help: `
Examples:
  vipnat balancer                    in a pod, with its service account
  vipnat balancer --kubeconfig /etc/vipnat/kubeconfig --node-name worker-1

The balancer serves Services of type LoadBalancer that have an address. It writes the
tables vipnat-lb of nftables, and touches nothing of vipnat run. When it stops, its
rules work for 30 more seconds. Then kube-proxy's rules count.
Exit status: 0 ended by a signal, 1 failed, 78 bad configuration.`,
  flags,
  heeds: ['kubeconfig', 'nodeName', 'runDir', 'listen', 'logLevel', 'logFormat'],
  hasLog: () => true,
  check: ({ options }) => checkNamespace(options.namespace, servicesNamespace),
  run: ({ options: { namespace, nodeAddress: nodeAddresses, nodeProbePort }, ...context }) =>
    runBalancer({ ...context, options: { namespace, nodeAddresses, probePort: nodeProbePort } }),
});

/**
 * Runs until SIGTERM or SIGINT. Its tables stay when it ends, and count for 30 s. While another balancer runs
 * on this host it waits for that one to end, and writes nothing.
 * @throws VipnatError API_CREDENTIALS_INVALID without credentials for the Kubernetes API
 */
async function runBalancer({ config, options, given }: BalancerContext): Promise<number> {
  const route = findRoute({ ...config, vips: [] });
  if (route === null) {
    throw new VipnatError(
      'API_CREDENTIALS_INVALID',
      'the balancer needs credentials for the Kubernetes API: give --kubeconfig, or run it in a pod with a service account',
    );
  }
  // V8 would rather let the heap grow to twice the size than look for garbage.
  for (const flag of ['--max-semi-space-size=1', '--optimize-for-size']) setFlagsFromString(flag);
  const logger = await createLogger(config);
  const runDir = given.has('runDir') ? config.runDir : usualRunFolder;
  const beginning: Beginning = { running: null };
  // Without the flag nothing: the agent on the same host has the usual port.
  const served = await createServed(given.has('listen') ? config.listen : null, logger, beginning);
  const { time } = served;
  await served.server?.start();
  try {
    return await runInTurn({ route, logger, node: nameNode(config), runDir, time, ...options }, beginning);
  } finally {
    await served.server?.stop();
  }
}

/** What it serves, and who is told how long changes take; nobody where it serves nothing. */
async function createServed(
  listen: Endpoint | null,
  logger: Logger,
  beginning: Beginning,
): Promise<{ readonly server: StatusServer | null; readonly time: (seconds: number) => void }> {
  if (listen === null) return { server: null, time: () => undefined };
  const { pages, time } = await createBalancerPages(() => beginning.running?.state ?? null);
  return { server: createProbeServer(listen, pages, logger), time };
}

/** The balancer, once it runs. */
interface Beginning {
  running: NodeBalancer | null;
}

/** Runs the balancer once it is the only one of this host's network. */
async function runInTurn(options: NodeBalancerOptions, beginning: Beginning): Promise<number> {
  const { logger } = options;
  const ending = new AbortController();
  const signal = waitForSignal().finally(() => {
    ending.abort();
  });
  const heartbeat = createPodHeartbeat(logger, () => beginning.running?.behindMs ?? 0);
  try {
    await heartbeat?.start();
    const info = { version, pid: process.pid, since: systemClock.date().toISOString() };
    const claim = { role: balancerRole, info, answers: listAnswers(options, beginning) };
    const release = await takePlace({ ...claim, logger, signal: ending.signal, serve: () => null });
    if (release === null) {
      logger.info(`${await signal}: vipnat stops. It waited for another balancer, and wrote nothing`);
      return exitStatuses.done;
    }
    beginning.running = new NodeBalancer(options);
    return await serve(beginning.running, options, signal).finally(release);
  } finally {
    heartbeat?.stop();
  }
}

/** What it says of itself to commands on the same host. */
function listAnswers(place: NodeBalancerOptions, beginning: Beginning): Map<string, () => object> {
  const answer = () => {
    const state = beginning.running?.state;
    return state === undefined ? {} : toActivity(state, place, systemClock.date());
  };
  return new Map([[activityPath, answer]]);
}

/** Once it is the host's balancer: until the signal. */
async function serve(
  running: NodeBalancer,
  { logger, node }: NodeBalancerOptions,
  signal: Promise<NodeJS.Signals>,
): Promise<number> {
  logger.info(`vipnat ${version} balances Services on node ${node}, pid ${process.pid}`);
  running.start();
  logger.info(`${await signal}: vipnat stops. Its tables stay, and count for 30 s`);
  await running.stop();
  return exitStatuses.done;
}
