import { setFlagsFromString } from 'node:v8';
import { usualRunFolder } from '../../balancer/seats/seat-files.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { createLogger } from '../../lib/telemetry/logger.ts';
import { type BalancerContext } from '../grammar/command-context.ts';
import { nameNode } from '../wiring/node-name.ts';
import { findRoute } from '../wiring/one-shot-host.ts';
import { NodeBalancer } from '../wiring/node-balancer.ts';
import { waitForSignal } from '../wiring/wait-for-signal.ts';
import { version } from '../wiring/version.ts';

/**
 * `vipnat balancer`: runs until SIGTERM or SIGINT. Its tables stay when it ends, and count for 30 s.
 * @throws VipnatError API_CREDENTIALS_INVALID without credentials for the Kubernetes API
 */
export async function balancer({ config, options, given }: BalancerContext): Promise<number> {
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
  const signal = waitForSignal();
  const node = nameNode(config);
  const runDir = given.has('runDir') ? config.runDir : usualRunFolder;
  const running = new NodeBalancer({ route, logger, node, runDir, ...options });
  logger.info(`vipnat ${version} balances Services on node ${node}, pid ${process.pid}`);
  running.start();
  logger.info(`${await signal}: vipnat stops. Its tables stay, and count for 30 s`);
  await running.stop();
  return exitStatuses.done;
}
