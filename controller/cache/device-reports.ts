/** What the controller's writers of devices say of them: steps are decided from it, as from the reports of nodes. It is as old as this leadership. */
import { type BalancerId } from '../../lib/devices/driver.ts';
import { type DeviceDrain, type DeviceUnit } from '../../lib/services/devices.ts';

/** How a device does. */
export interface DeviceReport {
  /** Of the LoadBalancerDevice that this is about. */
  readonly generation: number;
  readonly units: readonly DeviceUnit[];
  /** How many Services it has something of; null before that was read. */
  readonly balancers: number | null;
  /** What other users have changed there and not applied: the first 10. */
  readonly foreignChanges: readonly string[];
  /** Members that get no new connections: the 100 that have drained for longest. */
  readonly draining: readonly DeviceDrain[];
  readonly isReady: boolean;
  readonly reason: string;
  readonly message: string;
}

/** What one device has of one Service. */
export interface DeviceBalancer {
  readonly device: string;
  readonly id: BalancerId;
  readonly standing:
    /** It serves the Service at these addresses, or did so when it said something last. */
    | 'serves'
    /** It has something of it, or may have it soon. */
    | 'unknown'
    /** It has nothing of it. */
    | 'absent';
  /** Canonical texts: nobody else gets them meanwhile. */
  readonly addresses: readonly string[];
  /** Why the device does not do what the Service wants; null where it does, or may do it soon. */
  readonly problem: DeviceProblem | null;
  /** What of the Service's wishes it leaves out: a sentence. Null for nothing. */
  readonly remark: string | null;
  /** The uids of pods with readiness gates that it sends connections to, as far as their weights say so. */
  readonly gated: readonly string[];
  /** Another controller's finalizer is nowhere but on the Service. */
  readonly isTakenOver: boolean;
}

/** For a condition. */
export interface DeviceProblem {
  readonly reason: ProblemReason;
  readonly message: string;
}

/** Published: docs/services-reference.md. */
export type ProblemReason =
  /** The device does not answer, or it did not work: it is tried again. */
  | 'DeviceFailed'
  /** The device will not do it: a person has to change something. */
  | 'DeviceRefused'
  /** It takes long. */
  | 'WaitingForDevice'
  /** The Service asks for what a device cannot have, or what others have. */
  | 'AddressTaken'
  | 'NoFreeAddress'
  | 'OutsideDevice'
  | 'AddressesMalformed'
  | 'NotSupported';

/** The key of what a device has of the Service of a uid. */
export function toBalancerKey(device: string, uid: string): string {
  return `${device} ${uid}`;
}
