/** Broken controllers, and which complaint belongs to each. */
import { type Write, nothing, type Step } from '../../../../controller/step.ts';
import type { StepKey } from '../../../../controller/cache/known.ts';
import type { Decide } from './controller.ts';
import { nextStep } from '../../../support/fakes/service-steps.ts';
import type { ClusterView } from '../../../../controller/cache/cache.ts';
import { type VirtualIp, loadBalancerClass, finalizer } from '../../../../lib/api/vipnat.ts';
import { believeNodes, mapValues } from '../believe-nodes.ts';
import type { Leaders } from './cluster.ts';

/** A step that is left out when it is of a certain kind. */
export function skip(isLeftOut: (write: Write, key: StepKey) => boolean): Decide {
  return (key, world) => {
    const step = nextStep(key, world);
    return step.does === 'write' && isLeftOut(step.write, key) ? nothing : step;
  };
}

/** A step whose request is another one. */
export function change(make: (write: Write) => Write): Decide {
  return (key, world) => {
    const step = nextStep(key, world);
    return step.does === 'write' ? { ...step, write: make(step.write) } : step;
  };
}

/** A decision from a world that is not so. */
function believe(make: (world: ClusterView) => ClusterView): Decide {
  return (key, world): Step => nextStep(key, make(world));
}

function mapVirtualIps(world: ClusterView, make: (virtualIp: VirtualIp) => VirtualIp): ClusterView {
  return { ...world, virtualIps: mapValues(world.virtualIps, make) };
}

/** Nodes that are said to have heard of everything. */
const trustNodes = (world: ClusterView) =>
  believeNodes(world, {
    ...{ listBehind: () => [], listReporting: () => [], listNotForgotten: () => [], listUnheld: () => [] },
    ...{ explainUnheld: () => null, haveForgotten: () => true },
  });

function callProgrammed(virtualIp: VirtualIp): VirtualIp {
  const { generation: observedGeneration } = virtualIp.metadata;
  const said = { type: 'Programmed', status: 'True' as const, reason: '', message: '' };
  const programmed = { ...said, observedGeneration };
  return { ...virtualIp, status: { ...virtualIp.status, conditions: [programmed] } };
}

function withoutConflict(virtualIp: VirtualIp): VirtualIp {
  const conditions = (virtualIp.status?.conditions ?? []).filter(({ type }) => type !== 'AddressInUse');
  return { ...virtualIp, status: { ...virtualIp.status, conditions } };
}

function withoutDrains(world: ClusterView): ClusterView {
  const judgedPools = mapValues(world.judgedPools, ({ pool, ...judged }) => {
    return { ...judged, pool: { ...pool, metadata: { ...pool.metadata, annotations: {} } } };
  });
  return { ...world, judgedPools };
}

function getFields(write: Write): Record<string, Record<string, unknown> | undefined> {
  return write.body as Record<string, Record<string, unknown> | undefined>;
}

function overwrite(write: Write): Write {
  if (write.method !== 'POST') return write;
  const body = { spec: getFields(write)['spec'] ?? {} } as Write['body'];
  return { ...write, method: 'PATCH', path: `${write.path}/${write.key}`, body };
}

/** Each Service that is to be served is said to have the finalizer. */
function withFinalizers(world: ClusterView): ClusterView {
  const services = mapValues(world.services, (service) => {
    const { metadata, spec } = service;
    const isServed =
      spec.loadBalancerClass === loadBalancerClass && typeof metadata.deletionTimestamp !== 'string';
    return isServed ? { ...service, metadata: { ...metadata, finalizers: [finalizer] } } : service;
  });
  return { ...world, services };
}

let wordings = 0;

export interface Mutant {
  readonly decide: Decide;
  readonly complaint: RegExp;
  readonly leaders?: Leaders;
}

export const mutants: Readonly<Record<string, Mutant>> = {
  'forgets nodes when a Service goes': { decide: believe(trustNodes), complaint: /^S[13]/ },
  'publishes before nodes have it': {
    decide: (key, world) =>
      nextStep(key, key.kind === 'Service' ? mapVirtualIps(world, callProgrammed) : world),
    complaint: /^S2/,
  },
  'publishes before an interface has it': {
    decide: believe((world) => ({
      ...world,
      generations: mapValues(world.generations, (one) => ({ ...one, version: '0' })),
    })),
    complaint: /^S2: .* which no interface has/,
  },
  'sets no finalizer': { decide: believe(withFinalizers), complaint: /^S3/ },
  'keeps nobody from deleting a VirtualIP': {
    decide: (key, world) => {
      const step = nextStep(key, world);
      if (step.does !== 'write' || step.write.kind !== 'VirtualIP') return step;
      const { metadata, ...others } = getFields(step.write);
      const { finalizers, ...rest } = metadata ?? {};
      const isAdded = finalizers !== undefined && Object.keys(others['spec'] ?? {}).length === 0;
      const body = { ...others, metadata: rest } as Write['body'];
      return isAdded ? nothing : { ...step, write: { ...step.write, body } };
    },
    complaint: /^S[12]/,
  },
  'says the same in other words each time': {
    decide: change((write) => {
      if (!write.path.endsWith('/status')) return write;
      const { status, ...others } = getFields(write);
      wordings += 1;
      return { ...write, body: { ...others, status: { ...status, wording: `${wordings}` } } };
    }),
    complaint: /^S8/,
  },
  'leaves addresses of Services that are gone': {
    decide: skip(
      ({ confirm, method }, key) => key.kind === 'VirtualIP' && method === 'PATCH' && confirm.length > 0,
    ),
    complaint: /is still given|stays|could have/,
  },
  'never deletes a VirtualIP': {
    decide: skip(({ method }) => method === 'DELETE'),
    complaint: /belongs to nobody/,
  },
  'keeps the finalizer': {
    decide: skip(({ body, kind }) => {
      const finalizers = (body as { metadata?: { finalizers?: readonly string[] } }).metadata?.finalizers;
      return kind === 'Service' && finalizers?.length === 0;
    }),
    complaint: /keeps the finalizer|deleted and stays/,
  },
  'writes without versions': {
    decide: change((write) => {
      const { metadata, ...others } = getFields(write);
      const { resourceVersion, ...rest } = metadata ?? {};
      return write.method === 'PATCH' && resourceVersion !== undefined
        ? { ...write, body: { ...others, metadata: rest } as Write['body'] }
        : write;
    }),
    complaint: /^S[12]|could have|not its own/,
    leaders: 'two',
  },
  'confirms nothing': {
    decide: change((write) => ({ ...write, confirm: [] })),
    complaint: /^S[12]|could have/,
    leaders: 'two',
  },
  'is never told of free addresses': {
    decide: (key, world) => {
      const step = nextStep(key, world);
      return step.does === 'wait' && step.waitsFor === 'addresses' ? { ...step, waitsFor: 'time' } : step;
    },
    complaint: /nothing says/,
  },
  'writes over a VirtualIP': { decide: change(overwrite), complaint: /./ },
  'thinks that silent nodes serve nothing': {
    decide: believe((world) => ({ ...world, unresponsiveNodes: new Map() })),
    complaint: /^S1: .* is given to/,
  },
  'publishes what another host has': {
    decide: (key, world) =>
      nextStep(key, key.kind === 'Service' ? mapVirtualIps(world, withoutConflict) : world),
    complaint: /another host answers/,
  },
  'moves no address from a seat that goes': {
    decide: skip(({ kind, body }) => {
      const { spec } = body as { spec?: object };
      return kind === 'VirtualIP' && spec !== undefined && Object.keys(spec).join() === 'seat';
    }),
    complaint: /which is not there/,
  },
  'ignores drains': {
    decide: (key, world) => nextStep(key, key.kind === 'AddressPool' ? withoutDrains(world) : world),
    complaint: /is drained/,
  },
  'strikes off whoever leaves at once': {
    decide: (key, world) => nextStep(key, key.kind === 'VirtualIP' ? trustNodes(world) : world),
    complaint: /^S[13]/,
  },
};
