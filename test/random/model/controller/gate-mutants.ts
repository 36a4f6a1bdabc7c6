/** Broken controllers of gates, and which complaint belongs to each. */
import { gateKinds } from '../../../../controller/leadership.ts';
import { nextStep } from '../../../support/fakes/service-steps.ts';
import type { ClusterView } from '../../../../controller/cache/cache.ts';
import type { Decide } from './controller.ts';
import type { Step, Write } from '../../../../controller/step.ts';
import { believe as decideFrom, believeNodes, mapValues } from '../believe-nodes.ts';
import { type Mutant, skip, change } from './mutants.ts';

const ofGates = new Set(gateKinds.map(({ name }) => name));

/** Gates that are decided from a world that is not so. */
function believe(make: (world: ClusterView) => ClusterView): Decide {
  return (key, world): Step =>
    ofGates.has(key.kind) ? decideFrom((said) => nextStep(key, said), make, world) : nextStep(key, world);
}

/** Candidates that are said to have programmed everything. */
const trustNodes = (world: ClusterView) =>
  believeNodes(world, {
    judge: (pool, service, version) =>
      version === null || pool.startsWith('/') ? world.candidates.judge(pool, service, version) : 'done',
  });

function callReady(world: ClusterView): ClusterView {
  const pods = mapValues(world.pods, (pod) => {
    const conditions = (pod.status?.conditions ?? []).map((one) =>
      one.type === 'ContainersReady' ? { ...one, status: 'True' as const } : one,
    );
    return { ...pod, status: { ...pod.status, conditions } };
  });
  return { ...world, pods };
}

/** Later versions are said to be earlier ones. */
function forgetVersions(world: ClusterView): ClusterView {
  return { ...world, sliceToSince: mapValues(world.sliceToSince, (since) => mapValues(since, () => '1')) };
}

function withoutServices(world: ClusterView): ClusterView {
  return { ...world, podToServices: new Map() };
}

/** A gate that follows the containers. */
const closing: Decide = (key, world) => {
  const step = nextStep(key, world);
  const pod = key.kind === 'Pod' ? world.pods.get(key.key) : undefined;
  if (pod === undefined || step.does === 'write') return step;
  const [gate] = (pod.spec.readinessGates ?? []).map(({ conditionType }) => conditionType);
  const find = (type: string | undefined) => pod.status?.conditions?.find((one) => one.type === type)?.status;
  if (
    gate?.includes('load-balancer') !== true ||
    find(gate) !== 'True' ||
    find('ContainersReady') !== 'False'
  )
    return step;
  const { namespace, name, uid } = pod.metadata;
  const write: Write = {
    ...{ method: 'PATCH', isStrategic: true, kind: 'Pod', key: `${namespace}/${name}`, confirm: [] },
    path: `/api/v1/namespaces/${namespace}/pods/${name}/status`,
    body: { metadata: { uid }, status: { conditions: [{ type: gate, status: 'False' }] } },
  };
  return { does: 'write', write, event: null };
};

/** Who serves is called ready, though its own node may not have it. */
function callServingReady({ body, ...write }: Write): Write {
  const slice = body as { readonly endpoints?: readonly { readonly conditions: Conditions }[] } | undefined;
  const endpoints = slice?.endpoints?.map(({ conditions, ...endpoint }) => {
    const ready = conditions.serving && !conditions.terminating;
    return { ...endpoint, conditions: { ...conditions, ready } };
  });
  return { ...write, body: { ...slice, ...(endpoints === undefined ? {} : { endpoints }) } };
}

type Conditions = Readonly<Record<'ready' | 'serving' | 'terminating', boolean>>;

export const gateMutants: Readonly<Record<string, Mutant>> = {
  'trusts nodes': { decide: believe(trustNodes), complaint: /^G1: .* does not send/ },
  'takes any version of a slice': { decide: believe(forgetVersions), complaint: /^G1: .* does not send|^G4/ },
  'sees no Service': { decide: believe(withoutServices), complaint: /^G1: .* for want of a Service/ },
  'does not wait for containers': {
    decide: believe(callReady),
    complaint: /^G1: .* containers are not ready/,
  },
  'loses patience at once': {
    decide: believe((world) => ({ ...world, waitedMs: world.waitedMs + 170_000 })),
    complaint: /^G1: .* times out after/,
  },
  'tells all nodes of a pod at once': {
    decide: change((write) => (write.kind === 'EndpointSlice' ? callServingReady(write) : write)),
    complaint: /^G4/,
  },
  'closes gates again': { decide: closing, complaint: /^G2/ },
  'deletes no slice': {
    decide: skip(({ kind, method }) => kind === 'EndpointSlice' && method === 'DELETE'),
    complaint: /^G3|nothing says/,
  },
  'writes no slice twice': {
    decide: skip(({ kind, method }) => kind === 'EndpointSlice' && method === 'PATCH'),
    complaint: /^G1|^G3|stays closed|early EndpointSlices|nothing says|come to rest/,
  },
  'opens no gate': { decide: skip(({ kind }) => kind === 'Pod'), complaint: /stays closed/ },
  'opens the gate of whoever has the name': {
    decide: change((write) => {
      const { status } = write.body as { readonly status: Record<string, string> };
      return write.kind === 'Pod' ? { ...write, body: { status } } : write;
    }),
    complaint: /^G1/,
  },
};
