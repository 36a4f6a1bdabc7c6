/** Gates open when kernels send connections to a pod, and not before; they are never closed again. */
import { toLeaseResource, parseNodeLease } from '../../../../lib/api/node.ts';
import type { World } from './world.ts';
import type { MachineKernel } from './machine-kernel.ts';
import type { Machine } from './machine.ts';
import type { Written, StoredObject } from '../../../support/fakes/object-api.ts';
import {
  listOwnGates,
  isTrue,
  listConditions,
  isReadyButForUs,
  isNodeReady,
  OverdueNodes,
} from '../controller/pod-facts.ts';
import { isSelected } from './slice-controller.ts';

/** A Lease that is older may be over for who judges it. */
const livingMs = 35_000;

/** A gate opens anyway after three minutes, and after 40 seconds where no node lives. */
const limits: Readonly<Record<string, number>> = { Timeout: 179_000, NoLivingNode: 39_000 };

/** A controller knows of a Node by then. */
const knownMs = 20_000;

const leases = toLeaseResource('vipnat-system');

export class GateWatch {
  readonly #world: World;
  /** Kernels to what each has sent connections to since its boot: `SERVICE POD`, by their UIDs. */
  readonly #kernelToSent = new WeakMap<MachineKernel, Set<string>>();

  /** Pods, by their UIDs, to when their containers were ready first: their gates cannot have waited for longer. */
  readonly #uidToReadyMs = new Map<string, number>();
  readonly #overdue = new OverdueNodes();

  constructor(world: World) {
    this.#world = world;
  }

  /** A machine's table has changed. */
  noteKernel(machine: Machine): void {
    const { api, kubernetes, traffic } = this.#world;
    const sent = this.#kernelToSent.get(machine.kernel) ?? new Set<string>();
    this.#kernelToSent.set(machine.kernel, sent);
    for (const { key, vip } of traffic.listServices()) {
      const uid = api.objects.list('Service').get(key)?.metadata.uid ?? '';
      for (const address of machine.kernel.readSlots(vip)?.keys() ?? [])
        sent.add(`${uid} ${kubernetes.findAt(address)?.uid ?? ''}`);
    }
  }

  noteWrite({ kind, key, before, after }: Written): void {
    if (kind !== 'Pod' || after === null) return;
    this.#noteReady(after);
    if (before?.metadata.uid !== after.metadata.uid) return;
    for (const type of listOwnGates(after)) {
      const [was, is] = [isTrue(before, type), isTrue(after, type)];
      if (was && !is) this.#world.complaints.push(`the gate ${type} of ${key} is closed again`);
      if (!was && is) this.#world.complaints.push(...this.#judgeOpened(key, after, type));
    }
  }

  #noteReady(pod: StoredObject): void {
    const { uid } = pod.metadata;
    if (isReadyButForUs(pod) && !this.#uidToReadyMs.has(uid))
      this.#uidToReadyMs.set(uid, this.#world.clock.date().getTime());
  }

  /** A controller says that no node sends new connections to a pod that ends. */
  noteDrained(seconds: number, uid: string): void {
    const { api, kubernetes, machines, complaints } = this.#world;
    this.#world.count('drains timed');
    const running = kubernetes.uidToPod.get(uid);
    const pod = api.objects.list('Pod').get(running?.key ?? '');
    if (running === undefined || pod === undefined || seconds > livingMs / 1000) return;
    for (const { vip, service } of this.#listServices(pod))
      for (const machine of machines.filter((one) => this.#sendsTo(one, vip, running.address)))
        complaints.push(
          `${running.key} is called drained, and ${machine.name} sends it connections of ${service.metadata.name}`,
        );
  }

  /** Of a candidate that was well for long. If all pods end, by themselves or with their nodes, they serve on. */
  #sendsTo(machine: Machine, vip: string, address: string): boolean {
    const { api, kubernetes, clock } = this.#world;
    const isEnding = (one: string) => {
      const pod = api.objects.list('Pod').get(kubernetes.findAt(one)?.key ?? '');
      const isDeleted = pod?.metadata.deletionTimestamp !== undefined;
      return isDeleted || this.#maySpare(machine, String(pod?.spec?.['nodeName']));
    };
    if (!this.#isCandidate(machine) || clock.now() - machine.troubledMs <= livingMs) return false;
    const slots = [...(machine.kernel.readSlots(vip)?.keys() ?? [])];
    return slots.includes(address) && !slots.every(isEnding);
  }

  #judgeOpened(key: string, pod: StoredObject, type: string): string[] {
    const condition = listConditions(pod.status).find((one) => one.type === type);
    const reason = condition?.reason ?? '';
    this.#world.count(`gates opened: ${reason}`);
    if (!isReadyButForUs(pod)) return [`the gate of ${key} is open, and its containers are not ready`];
    const node = String(pod.spec?.['nodeName']);
    const own = this.#world.machines.find(({ name }) => name === node);
    const isLong = own !== undefined && this.#world.clock.now() - own.endingMs > knownMs;
    if (isLong && !isNodeReady(this.#world.api.objects.list('Node').get(node)))
      return [`the gate of ${key} is open, and its node is not ready`];
    if (limits[reason] !== undefined) return this.#judgeTimeout(key, pod, reason);
    if (reason === 'NoService') return [];
    return this.#listServices(pod).flatMap(({ vip, service: { metadata, spec } }) => {
      const weight = pod.metadata.annotations?.['vipnat.io/weight'];
      if (weight === '0' || spec?.['type'] !== 'LoadBalancer') return [];
      return (
        this.#world.machines
          .filter((machine) => this.#isCandidate(machine))
          // To a pod whose node does not answer it sends nothing until that is back.
          .filter(({ out }) => !out.has(String(pod.spec?.['nodeName'])))
          .filter((machine) => !this.#maySpare(machine, String(pod.spec?.['nodeName'])))
          .filter(
            ({ kernel }) =>
              this.#kernelToSent.get(kernel)?.has(`${metadata.uid} ${pod.metadata.uid}`) !== true,
          )
          .filter(({ kernel }) => kernel.readSlots(vip)?.has(String(pod.status?.['podIP'])) !== true)
          .map(
            ({ name }) =>
              `the gate of ${key} is open, and ${name} has sent no connection of ${metadata.name} to it`,
          )
      );
    });
  }

  /** Whether a machine may send nothing to pods of a node, as that one ends, or has ended lately, by what is known here or there. */
  #maySpare({ life }: Machine, node: string): boolean {
    const { machines, clock } = this.#world;
    const own = machines.find(({ name }) => name === node);
    const isLately = own !== undefined && clock.now() - own.endingMs < livingMs;
    return own?.isEnding === true || isLately || life?.toldNodes.judge(node, 0) === true;
  }

  #judgeTimeout(key: string, { metadata: { uid } }: StoredObject, reason: string): string[] {
    const { api, clock, machines } = this.#world;
    const waitedMs = clock.date().getTime() - (this.#uidToReadyMs.get(uid) ?? Infinity);
    if (waitedMs < (limits[reason] ?? 0))
      return reason === 'Timeout' && this.#overdue.isAny(api.objects.list('Lease'))
        ? []
        : [`the gate of ${key} is open after ${waitedMs} ms of waiting`];
    const hasSent = ({ kernel }: Machine) =>
      [...(this.#kernelToSent.get(kernel) ?? [])].some((sent) => sent.endsWith(` ${uid}`));
    if (reason === 'Timeout')
      this.#overdue.add(
        machines.filter((machine) => !hasSent(machine)),
        api.objects.version,
      );
    const living = reason === 'Timeout' ? [] : machines.filter((machine) => this.#isCandidate(machine));
    return living.map(({ name }) => `the gate of ${key} is open for want of a node, and ${name} lives`);
  }

  #listServices(pod: StoredObject): { readonly vip: string; readonly service: StoredObject }[] {
    const { api, traffic } = this.#world;
    return traffic.listServices().flatMap(({ key, vip }) => {
      const service = api.objects.list('Service').get(key);
      return service !== undefined && isSelected(key, service, pod) ? [{ vip, service }] : [];
    });
  }

  /** Whether its Lease lives, of a life that can know of the pod: a kernel that was reset is kube-proxy's until its balancer has all. */
  #isCandidate(machine: Machine): boolean {
    const { api, clock } = this.#world;
    const stored = api.objects.list('Lease').get(`vipnat-system/vipnat-lb-${machine.name}`);
    if (stored === undefined || !machine.isOn || clock.now() - machine.bootedMs < 2 * livingMs) return false;
    const lease = parseNodeLease(leases.schema.parse(stored));
    const renewedMs = Date.parse(lease?.renewal ?? '');
    return (
      lease?.report.mode === 'direct' &&
      clock.date().getTime() - renewedMs < livingMs &&
      machine.kernel.isAlive
    );
  }
}
