import { type Regarding } from '../../lib/telemetry/regarding.ts';
import { type StepKey } from '../cache/watch.ts';
import { findMetadata, type World } from '../cache/world.ts';
import { type Kind, type KindGroup, type Step } from '../engine/step.ts';
import { addressPool } from './address-pool.ts';
import { earlySlices } from './early-slices.ts';
import { lease } from './lease.ts';
import { loadBalancerDevice } from './load-balancer-device.ts';
import { pod } from './pod-gate.ts';
import { service } from './service.ts';
import { virtualIp } from './virtual-ip.ts';
import { type Known } from '../cache/known.ts';

/** Services, their addresses, pools and devices. */
export const serviceKinds: KindGroup = {
  kinds: [lease, addressPool, virtualIp, loadBalancerDevice, service],
  wakeMs: 0,
};

/** Hundreds of pods can wait for the same nodes, and each report of a node is news to all of them. */
const wakeMs = 100;

/** Gates of pods: they begin when pods are known, too. */
export const gateKinds: KindGroup = { kinds: [earlySlices, pod], wakeMs };

/** All kinds. */
export const kinds: readonly Kind[] = [...serviceKinds.kinds, ...gateKinds.kinds];

/** The kind of some keys. */
export function getKind(name: string): Kind {
  const kind = kinds.find((each) => each.name === name);
  if (kind === undefined) throw new TypeError(`no kind: ${name}`);
  return kind;
}

/** The one next step of a key. Pure. */
export function nextStep({ kind, key }: StepKey, world: World): Step {
  return getKind(kind).next(key, world);
}

/** The object that events of a key are about; null where it is not known, or nothing is told of the kind. */
export function toRegarding({ kind, key }: StepKey, known: Known): Regarding | null {
  const { source, subject } = getKind(kind);
  const { uid } = findMetadata(known, source, key);
  if (subject === null || uid === undefined) return null;
  const at = key.indexOf('/');
  const namespace = at < 0 ? {} : { namespace: key.slice(0, at) };
  return { ...subject, ...namespace, name: key.slice(at + 1), uid };
}
