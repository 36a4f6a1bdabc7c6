import { type Steps } from '../reconcile/steps.ts';
import { nothing } from '../reconcile/step.ts';
import { nextEarlySlicesStep } from './early-slices-step.ts';
import { nextGateStep } from './gate-step.ts';

/** Hundreds of pods can wait for the same nodes, and each report of a node is news to all of them. */
const wakeMs = 100;

/** The steps of gates: early EndpointSlices by their Services, and pods. */
export const gateSteps: Steps = {
  next: (key, world) => {
    if (key.kind === 'EarlySlices') return nextEarlySlicesStep(`${key.namespace}/${key.name}`, world);
    return key.kind === 'Pod' ? nextGateStep(`${key.namespace}/${key.name}`, world) : nothing;
  },
  listKeys: ({ gates }) => [
    ...new Set([...gates.serviceToSlices.keys(), ...gates.serviceToPods.keys()].map(toSlicesText)),
    ...[...gates.pods.keys()].map((key) => `Pod/${key}`),
  ],
  owns: ({ kind }) => kind === 'EarlySlices' || kind === 'Pod',
  wakeMs,
};

function toSlicesText(key: string): string {
  return `EarlySlices/${key}`;
}
