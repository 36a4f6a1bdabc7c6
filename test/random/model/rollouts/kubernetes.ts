/** What kubelets do: pods run, are ready, and end. */
import type { Machine } from './machine.ts';
import type { Clock } from '../../../../lib/clock.ts';
import type { MemoryApi } from './memory-api.ts';
import type { Random } from '../../../support/random/random.ts';
import { SliceController } from './slice-controller.ts';
import type { Written, StoredObject } from '../../../support/fakes/object-api.ts';
import { hasOtherSpec, listConditions, listGates, isTrue } from '../controller/pod-facts.ts';

export interface RunningPod {
  readonly key: string;
  readonly uid: string;
  readonly address: string;
  readonly machine: Machine;
  isAnswering: boolean;
  /** When it last changed anything that matters to its connections. */
  changedMs: number;
}

/** A controller that cannot write tries again so often. */
const retryMs = 500;

/** Addresses of a node's pods: few, so that they are given again soon. */
const addressesOfNode = 4;

/** kube-controller-manager calls the pods of a node not ready after so long without its kubelet. */
const deadMs = 40_000;

export class Kubernetes {
  readonly #clock: Clock;
  readonly #api: MemoryApi;
  readonly #random: Random;
  readonly #machines: readonly Machine[];
  readonly uidToPod = new Map<string, RunningPod>();
  readonly #slices: SliceController;
  /** Called when a pod answers no more. */
  onEnded: (pod: RunningPod) => void = () => undefined;

  constructor(
    clock: Clock,
    api: MemoryApi,
    { random, machines }: { readonly random: Random; readonly machines: readonly Machine[] },
  ) {
    [this.#clock, this.#api, this.#random, this.#machines] = [clock, api, random, machines];
    this.#slices = new SliceController(clock, api, random);
    this.#watchNodes();
  }

  findAt(address: string): RunningPod | null {
    return [...this.uidToPod.values()].find((pod) => pod.address === address) ?? null;
  }

  note({ kind, key, before, after }: Written): void {
    if (kind === 'Pod') this.#notePod(key, before, after);
    if (kind === 'Service') {
      this.#slices.plan(key);
      if (hasOtherSpec({ before, after })) this.#touchAll();
      if (after === null) this.#slices.later(300, 3000, this.#slices.collect.bind(this.#slices));
    }
  }

  setReady(key: string, isReady: boolean): boolean {
    return this.setCondition(key, 'ContainersReady', isReady);
  }

  setCondition(key: string, type: string, isTrueNow: boolean, reason = ''): boolean {
    const pod = this.#api.objects.list('Pod').get(key);
    if (pod?.status?.['podIP'] === undefined || this.#api.delayMs === null) return false;
    const lastTransitionTime = this.#clock.date().toISOString();
    const others = listConditions(pod.status).filter((one) => one.type !== type);
    const status = isTrueNow ? 'True' : 'False';
    const conditions = [...others, { type, status, reason, lastTransitionTime }];
    return this.#api.objects.patch('Pod', key, { status: { conditions } }, true) === 200;
  }

  /** A machine is off: so are its pods. Nobody is told. */
  powerOff(machine: Machine): void {
    for (const pod of this.#listOf(machine)) pod.isAnswering = false;
  }

  /** A machine boots: what ran there is gone. */
  powerOn(machine: Machine): void {
    for (const pod of this.#listOf(machine)) this.#release(pod);
  }

  #listOf(machine: Machine): RunningPod[] {
    return [...this.uidToPod.values()].filter((pod) => pod.machine === machine);
  }

  #notePod(key: string, before: StoredObject | null, after: StoredObject | null): void {
    this.#slices.planSelecting(before ?? after);
    this.#slices.planSelecting(after ?? before);
    if (after === null) {
      if (before !== null) this.uidToPod.delete(before.metadata.uid);
      return;
    }
    const { uid, deletionTimestamp } = after.metadata;
    if (before === null) this.#slices.later(50, 800, this.#begin.bind(this, key, uid));
    if (toConnectionParts(before) !== toConnectionParts(after)) this.#touch(uid);
    if (deletionTimestamp === undefined) {
      this.#slices.later(50, 900, this.#judgeReady.bind(this, key, uid));
    } else if (before?.metadata.deletionTimestamp === undefined) {
      this.#slices.later(200, this.#random.pick([500, 3000, 12_000]), this.#end.bind(this, key, uid));
    }
  }

  #touch(uid: string): void {
    const running = this.uidToPod.get(uid);
    if (running !== undefined) running.changedMs = this.#clock.now();
  }

  /** The kubelet gives it an address, and starts its container. */
  #begin(key: string, uid: string): void {
    const pod = this.#api.objects.list('Pod').get(key);
    const machine = this.#machines.find(({ name }) => name === pod?.spec?.['nodeName']);
    if (pod?.metadata.uid !== uid || machine === undefined || pod.metadata.deletionTimestamp !== undefined)
      return;
    const address = this.#chooseAddress(machine);
    if (!this.#isKubeletUp(machine) || address === null) {
      this.#slices.later(retryMs, 2 * retryMs, this.#begin.bind(this, key, uid));
      return;
    }
    this.uidToPod.set(uid, { key, uid, address, machine, isAnswering: true, changedMs: this.#clock.now() });
    this.#api.objects.patch('Pod', key, { status: { podIP: address, podIPs: [{ ip: address }] } }, true);
  }

  #chooseAddress(machine: Machine): string | null {
    const all = Array.from(
      { length: addressesOfNode },
      (_, at) => `10.1.${this.#machines.indexOf(machine)}.${at + 1}`,
    );
    return all.find((address) => this.findAt(address) === null) ?? null;
  }

  #isKubeletUp(machine: Machine): boolean {
    return machine.isUp && this.#api.delayMs !== null;
  }

  /** `Ready`, as its kubelet says it. */
  #judgeReady(key: string, uid: string): void {
    const pod = this.#api.objects.list('Pod').get(key);
    const running = this.uidToPod.get(uid);
    if (pod?.metadata.uid !== uid || running === undefined || pod.metadata.deletionTimestamp !== undefined)
      return;
    if (!this.#isKubeletUp(running.machine)) {
      this.#slices.later(retryMs, 2 * retryMs, this.#judgeReady.bind(this, key, uid));
      return;
    }
    const isReady = ['ContainersReady', ...listGates(pod)].every((type) => isTrue(pod, type));
    const reason = isReady ? '' : explainUnready(pod);
    if (readReady(pod) !== `${isReady} ${reason}`) this.setCondition(key, 'Ready', isReady, reason);
  }

  /** Its process ends, and then the pod. */
  #end(key: string, uid: string): void {
    const running = this.uidToPod.get(uid);
    const machine = running?.machine;
    if (machine !== undefined && !this.#isKubeletUp(machine)) {
      this.#slices.later(retryMs, 2 * retryMs, this.#end.bind(this, key, uid));
      return;
    }
    if (running !== undefined && running.isAnswering) {
      running.isAnswering = false;
      running.changedMs = this.#clock.now();
      this.onEnded(running);
    }
    this.#remove(key, uid);
  }

  #remove(key: string, uid: string): void {
    if (this.#api.delayMs === null) {
      this.#slices.later(retryMs, 2 * retryMs, this.#remove.bind(this, key, uid));
      return;
    }
    const pod = this.#api.objects.list('Pod').get(key);
    if (pod?.metadata.uid === uid) this.#api.objects.patch('Pod', key, { metadata: { finalizers: [] } });
    this.uidToPod.delete(uid);
  }

  #release(pod: RunningPod): void {
    const { key, uid } = pod;
    pod.isAnswering = false;
    if (this.#api.objects.list('Pod').get(key)?.metadata.uid === uid) this.#api.objects.remove('Pod', key);
    this.#remove(key, uid);
  }

  #touchAll(): void {
    for (const pod of this.uidToPod.values()) pod.changedMs = this.#clock.now();
  }

  /** Pods of a machine whose kubelet is silent are not ready. */
  #watchNodes(): void {
    const now = this.#clock.now();
    const dead = this.#machines.filter(({ isUp, troubledMs }) => !isUp && now - troubledMs > deadMs);
    for (const { key } of dead.flatMap((machine) => this.#listOf(machine))) {
      const object = this.#api.objects.list('Pod').get(key);
      if (object !== undefined && isTrue(object, 'Ready')) this.setCondition(key, 'Ready', false);
    }
    // Kubelets look at their pods from time to time.
    for (const [key, { metadata }] of this.#api.objects.list('Pod')) this.#judgeReady(key, metadata.uid);
    this.#clock.schedule(5000, this.#watchNodes.bind(this));
  }
}

/** Source: kubelet, pkg/kubelet/status, generate.go. */
function explainUnready(pod: StoredObject): string {
  return isTrue(pod, 'ContainersReady') ? 'ReadinessGatesNotReady' : 'ContainersNotReady';
}

function readReady({ status }: StoredObject): string {
  const known = listConditions(status).find(({ type }) => type === 'Ready');
  return `${known?.status === 'True'} ${known?.reason ?? 'not said yet'}`;
}

/** What of a pod matters to its connections. */
function toConnectionParts(pod: StoredObject | null): string {
  if (pod === null) return '';
  const { labels, deletionTimestamp } = pod.metadata;
  return JSON.stringify([labels, isTrue(pod, 'Ready'), isTrue(pod, 'DisruptionTarget'), deletionTimestamp]);
}
