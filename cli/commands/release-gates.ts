import * as z from 'zod/mini';
import { systemClock } from '../../lib/control/clock.ts';
import { type ObjectClient, RoutedClient } from '../../lib/kubernetes/object-client.ts';
import { createLister, type ListAll } from '../../lib/kubernetes/object-lister.ts';
import { readGateTypes } from '../../lib/services/gate-types.ts';
import { gatesPolicy, webhookName } from '../../lib/services/names.ts';
import { type Lease, toLeaseResource } from '../../lib/services/node-report.ts';
import { type VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { formatReleased, formatReleaseJson, formatReleasePlan } from '../format/screens/release-gates.ts';
import { servicesNamespace } from '../generate/manifest/options.ts';
import { type CommandContext, type ReleaseOptions } from '../grammar/command-context.ts';
import { releaseGates as release, selectClosed, toOpening } from '../services/release-gates.ts';
import { viewController } from '../services/view-controller.ts';
import { findClusterRoute } from '../services/cluster-route.ts';

/** What `release-gates` takes. */
export type ReleaseContext = CommandContext<ReleaseOptions & { readonly json: boolean }>;

/**
 * `vipnat services release-gates`: opens gates of vipnat that are not open, or only prints what it would write. A gate that another program
 * opens, and a pod that goes, are done as well.
 * @throws VipnatError API_CREDENTIALS_INVALID without credentials, and those of a request to the API
 */
export async function releaseGates({ config, options, stdout, stderr }: ReleaseContext): Promise<number> {
  const { isConfirmed, podNamespace, json } = options;
  const [clock, { signal }] = [systemClock, new AbortController()];
  const route = findClusterRoute(config, 'services release-gates');
  const [client, list] = [new RoutedClient(route, clock, signal), createLister(route, clock, signal)];
  const leases = await listLeases(list);
  const types = new Set([...readGateTypes(leases), ...options.gates]);
  const pods = await list(selectClosed(types, podNamespace));
  const facts = {
    leader: findLeader(leases),
    policy: await readInjection(client, 'mutatingadmissionpolicies', gatesPolicy),
    webhook: await readInjection(client, 'mutatingwebhookconfigurations', webhookName),
  };
  if (!isConfirmed) {
    const plan = { pods, types, opening: toOpening(clock.date()), ...facts };
    stdout(json ? formatReleaseJson(plan, null) : formatReleasePlan(plan).stdout);
    if (!json) stderr(formatReleasePlan(plan).stderr);
    return pods.length === 0 ? exitStatuses.done : exitStatuses.found;
  }
  const releases = await release(pods, types, {
    ...{ client, clock },
    onReleased: ({ pod, gates, outcome, why }) => {
      if (!json) stdout(`${pod}: ${gates.join(', ')} ${why === null ? outcome : `left: ${why}`}\n`);
    },
  });
  const plan = { pods, types, opening: toOpening(clock.date()), ...facts };
  if (json) stdout(formatReleaseJson(plan, releases));
  stderr(formatReleased(releases, plan));
  return releases.some(({ outcome }) => outcome === 'left') ? exitStatuses.failed : exitStatuses.done;
}

/** Where the controller says who leads, and which gates it opens; none where these credentials may not see it. */
async function listLeases(list: ListAll): Promise<readonly Lease[]> {
  try {
    return await list(toLeaseResource(servicesNamespace));
  } catch (error) {
    // What it does not know it does not say: the gates are what it is asked for.
    if ((error as VipnatError).code === 'API_FORBIDDEN') return [];
    throw error;
  }
}

/** Who opens gates itself; null where no controller leads. */
function findLeader(leases: readonly Lease[]): string | null {
  const { isLeading, holder } = viewController(leases, systemClock.date().getTime());
  return isLeading ? holder : null;
}

const limitMs = 5000;

/** Whether an object is there that gives new pods the gate. An API that does not know its kind has none. */
async function readInjection(
  client: ObjectClient,
  resource: string,
  name: string,
): Promise<'there' | 'gone' | 'unknown'> {
  const path = `/apis/admissionregistration.k8s.io/v1/${resource}/${name}`;
  const answer = await client.read({ title: `reading ${path}`, path, schema: z.object({}) }, limitMs);
  if (answer.outcome === 'found') return 'there';
  return answer.outcome === 'gone' ? 'gone' : 'unknown';
}
