/** Steps of early EndpointSlices of one Service. */
import { makeService, makeNode, makeWorld, makeEarlySlice, makePod } from './service-objects.ts';
import type { Service } from '../../../lib/api/service.ts';
import type { EarlySlice, Pod } from '../../../lib/api/endpoints.ts';
import type { Step } from '../../../controller/step.ts';
import { earlySliceKind } from '../../../controller/kinds/endpoints.ts';

/** Of the Service of these tests. */
export const selector = { app: 'web' };
const service = makeService('apps/web', { spec: { selector } });
interface Given {
  readonly services?: readonly Service[];
  readonly slices?: readonly EarlySlice[];
  /** Of the pods' node. */
  readonly ready?: string;
}

/** The next step of `apps/web`. */
export const decide = (
  pods: readonly Pod[],
  { services = [service], slices = [], ready }: Given = {},
): Step => {
  const nodes = [makeNode('w1', { 'topology.kubernetes.io/zone': 'a' }, undefined, ready)];
  return earlySliceKind.next('apps/web', makeWorld({ services, pods, earlySlices: slices, nodes }));
};

interface Body {
  readonly metadata: { readonly name: string; readonly annotations?: Record<string, string | null> };
  readonly addressType: string;
  readonly endpoints: readonly { readonly addresses: readonly string[]; readonly conditions: object }[];
  readonly ports: readonly object[];
}

export const readBody = (step: Step) => {
  if (step.does !== 'write') throw new Error(`it does ${step.does}`);
  return step.write.body as unknown as Body;
};
export const listAddresses = (step: Step) => readBody(step).endpoints.map(({ addresses }) => addresses[0]);
export const readConditions = (step: Step) => readBody(step).endpoints[0]?.conditions;

/** Takes steps until there is none, as an API would have their results. Answers the slices. */
export function settle(pods: readonly Pod[], given: Given = {}): EarlySlice[] {
  let slices = [...(given.slices ?? [])];
  for (let version = 60; version < 90; version += 1) {
    const step = decide(pods, { ...given, slices });
    if (step.does !== 'write') return slices;
    const { method, key, body } = step.write;
    const at = slices.findIndex(({ metadata }) => `${metadata.namespace}/${metadata.name}` === key);
    const known = slices[at];
    if (method === 'POST') slices.push(makeEarlySlice(step, String(version)));
    else if (method === 'DELETE') slices = slices.toSpliced(at, 1);
    else if (known !== undefined)
      slices = slices.with(at, { ...known, ...(body as object), metadata: known.metadata });
  }
  throw new Error('it does not end');
}

/** Pods, each with an address of its own. */
export const makeMany = (count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => {
    const number = index + from;
    const ip = `10.1.${Math.floor(number / 250)}.${(number % 250) + 1}`;
    return makePod(`apps/p${number}`, { status: { podIP: ip, podIPs: [{ ip }] } });
  });
