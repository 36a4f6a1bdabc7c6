/** What the printed admission policies decide. */
import { describe, expect, test } from '@jest/globals';
import { evaluateCel } from '../../../support/manifest/cel.ts';
import {
  type InjectedPod,
  injectedNamespaces,
  injectingServices,
  injectionCases,
  readInjected,
  takenCases,
  toPod,
} from '../../../support/manifest/injected-pods.ts';
import { parse, print } from '../../../support/manifest/printing.ts';

interface Named {
  readonly name: string;
  readonly expression: string;
}

interface Policy {
  readonly matchConstraints: { readonly namespaceSelector: { readonly matchLabels: object } };
  readonly mutations: readonly {
    readonly jsonPatch?: { readonly expression: string };
    readonly applyConfiguration?: { readonly expression: string };
  }[];
  readonly variables?: readonly Named[];
  readonly matchConditions: readonly Named[];
  readonly validations: readonly { readonly expression: string; readonly message: string }[];
}

async function findPolicy(kind: string, name: string, ...words: readonly string[]) {
  const found = parse(await print(['services', ...words])).find(
    (one) => one.kind === kind && one.metadata.name === name,
  );
  return (found as unknown as { readonly spec: Policy }).spec;
}

describe('of a pod, the controller may write', () => {
  const own = { type: 'vipnat.io/load-balancer-ready', status: 'True' };
  const named = { type: 'example.com/gate', status: 'True' };
  const ready = { type: 'Ready', status: 'False' };
  const evicted = { type: 'DisruptionTarget', status: 'True' };
  const conditions = [ready, evicted];
  const pod = { metadata: { name: 'web', labels: { app: 'web' } }, status: { phase: 'Running', conditions } };
  const status = (more: object) => ({ ...pod, status: { ...pod.status, ...more } });

  async function isAllowed(object: object, words: readonly string[] = [], oldObject: object = pod) {
    const { variables = [], validations } = await findPolicy(
      ...(['ValidatingAdmissionPolicy', 'vipnat-controller'] as const),
      ...words,
    );
    const request = { resource: { resource: 'pods' }, name: 'web', operation: 'UPDATE' };
    const ofPolicy = variables.map(({ name, expression }) => [name, evaluateCel(expression, {})] as const);
    const scope = { object, oldObject, request, variables: Object.fromEntries(ofPolicy) };
    return validations.every(({ expression }) => evaluateCel(expression, scope) === true);
  }

  test.each<[string, object, boolean]>([
    ['the condition of its gate, new', status({ conditions: [own, ...conditions] }), true],
    ['one of a gate that is not its own', status({ conditions: [...conditions, named] }), false],
    ['that the pod is ready', status({ conditions: [{ ...ready, status: 'True' }, evicted] }), false],
    ['that nobody evicts it', status({ conditions: [ready] }), false],
    ['no conditions', status({ conditions: undefined }), false],
    ['a phase', status({ phase: 'Failed' }), false],
    ['why it is so', status({ reason: 'Evicted' }), false],
    ['a host', status({ hostIP: '10.9.9.9' }), false],
    ['a field of newer versions', status({ newest: [{ a: 1 }] }), false],
    ['less than there is', { ...pod, status: { conditions } }, false],
    ['a finalizer', { ...pod, metadata: { ...pod.metadata, finalizers: ['example.com/x'] } }, false],
    ['a label', { ...pod, metadata: { ...pod.metadata, labels: { app: 'other' } } }, false],
    ['nothing', pod, true],
  ])('%s: %j', async (_, object, allowed) => {
    expect(await isAllowed(JSON.parse(JSON.stringify(object)) as object)).toBe(allowed);
  });

  test('the condition of a gate that an option names, from the first one on', async () => {
    const bare = { ...pod, status: { phase: 'Pending' } };
    const open = { ...pod, status: { phase: 'Pending', conditions: [named] } };
    expect(await isAllowed(open, ['--gate', named.type], bare)).toBe(true);
    expect(await isAllowed(open, ['--gate', 'example.com/other'], bare)).toBe(false);
  });
});

interface Spec {
  readonly readinessGates?: readonly object[];
  readonly containers: readonly { readonly name: string; readonly lifecycle?: object }[];
}

/** What the policy makes of a pod by one Service of its namespace after the other, as an API server does. */
async function inject(
  { namespace = 'gates', ...pod }: InjectedPod,
  services: Readonly<Record<string, object>> = injectingServices,
  finalizers: readonly string[] = [],
): Promise<object> {
  const policy = await findPolicy('MutatingAdmissionPolicy', 'vipnat-gates', '--inject-gates');
  const { matchLabels } = policy.matchConstraints.namespaceSelector;
  const isAsked = JSON.stringify(matchLabels) === JSON.stringify(injectedNamespaces[namespace]);
  const params = Object.values(services).map((spec) => {
    return { metadata: { finalizers }, spec: { type: 'ClusterIP', ...spec } };
  });
  return (isAsked ? params : []).reduce((made, each) => injectBy(policy, made, each), toPod(pod)).spec;
}

function injectBy({ matchConditions, mutations }: Policy, pod: ReturnType<typeof toPod>, params: object) {
  const evaluateFor = (object: object, expression: string) => evaluateCel(expression, { object, params });
  if (!matchConditions.every(({ expression }) => evaluateFor(pod, expression) === true)) return pod;
  return mutations.reduce((object, { jsonPatch, applyConfiguration }) => {
    const answer = evaluateFor(object, (jsonPatch ?? applyConfiguration)?.expression ?? '');
    const apply = jsonPatch === undefined ? applyFields : applyOperations;
    return { ...object, spec: apply(object.spec as Spec, answer as never) };
  }, pod);
}

function applyOperations(spec: Spec, operations: readonly { readonly value: object }[]): Spec {
  // The first one adds the list itself.
  const gates = operations.map(({ value }) => value).filter((value) => !Array.isArray(value));
  return { ...spec, readinessGates: [...(spec.readinessGates ?? []), ...gates] };
}

function applyFields(spec: Spec, { spec: added = {} }: { readonly spec?: Partial<Spec> }): Spec {
  const containers = spec.containers.map((each) => {
    const lifecycle = added.containers?.find(({ name }) => name === each.name)?.lifecycle;
    return lifecycle === undefined ? each : { ...each, lifecycle: { ...each.lifecycle, ...lifecycle } };
  });
  return { ...spec, ...added, containers };
}

test.each(injectionCases)(
  'the policy gives gate and pause as the webhook does: %s',
  async (_, pod, injected) => {
    expect(readInjected(await inject(pod))).toEqual(injected);
  },
);

test.each(takenCases)(
  'the policy takes a Service without a class and with %j for ours: %s',
  async (finalizers, isTaken) => {
    const classless = { type: 'LoadBalancer', selector: { app: 'web' } };
    const { gates } = readInjected(await inject({}, { classless }, finalizers));
    expect(gates).toHaveLength(isTaken ? 1 : 0);
  },
);
