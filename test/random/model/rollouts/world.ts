/** A cluster of some machines, controllers and an API in memory, on one clock. */
import { LifeClock } from './life-clock.ts';
import { Link } from './memory-network.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { Random } from '../../../support/random/random.ts';
import { MemoryApi } from './memory-api.ts';
import { Machine, type MachinePlace } from './machine.ts';
import { Kubernetes } from './kubernetes.ts';
import { Traffic } from './traffic.ts';
import { GateWatch } from './gate-watch.ts';
import { judgeForgotten } from './judge-forgotten.ts';
import { Controller } from '../../../../controller/main.ts';
import { loadDriver } from '../../../../devices/drivers.ts';
import { RoutedClient } from '../../../../lib/kubernetes/writes.ts';
import { ControllerLog } from '../../../../controller/report/log.ts';
import { createRecordingLogger } from '../../../support/fakes/logger.ts';
import { noEvents } from '../../../../lib/telemetry/events.ts';
import { toGateTypes } from '../../../../lib/api/endpoints.ts';
import { otherGate } from '../controller/pod-facts.ts';
import { randomUUID } from 'node:crypto';
import type { Written } from '../../../support/fakes/object-api.ts';

interface ControllerLife {
  readonly clock: LifeClock;
  readonly link: Link;
  readonly name: string;
}

/** Where a walk looks. */
const stepMs = 250;

const machineCount = 3;

/** Once a second, VRRP's others notice that a holder is gone. */
const vrrpMs = 1000;

export class World {
  readonly clock = new FakeClock(undefined, 1);
  readonly random: Random;
  readonly api: MemoryApi;
  readonly machines: readonly Machine[];
  readonly kubernetes: Kubernetes;
  readonly traffic: Traffic;
  readonly complaints: string[] = [];
  readonly counts = new Map<string, number>();
  controllers: ControllerLife[] = [];
  readonly #gates: GateWatch;
  readonly #seatToHolder = new Map<string, Machine>();
  #made = 0;

  constructor(seed: number, wrapNodes: MachinePlace['wrapNodes']) {
    this.random = new Random(seed);
    const { clock, random } = this;
    this.api = new MemoryApi(clock, this.#note.bind(this));
    this.machines = Array.from({ length: machineCount }, (_, index): Machine => {
      const place: MachinePlace = {
        ...{ name: `n${index}`, address: `10.0.9.${index + 1}`, clock, api: this.api, random, wrapNodes },
        connect: (from, address) =>
          from.isUp && this.machines.some((one) => one.isUp && one.place.address === address),
        onForgotten: (machine, connection) => {
          this.complaints.push(...judgeForgotten(this, machine, connection));
        },
        onChange: (machine) => {
          this.#gates.noteKernel(machine);
        },
      };
      return new Machine(place);
    });
    this.kubernetes = new Kubernetes(clock, this.api, { random, machines: this.machines });
    this.traffic = new Traffic(this);
    this.#gates = new GateWatch(this);
    this.kubernetes.onEnded = this.traffic.endPod.bind(this.traffic);
    this.#populate();
  }

  hasComplaint(): boolean {
    return this.complaints.length > 0;
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  startController(): ControllerLife {
    const [clock, name] = [new LifeClock(this.clock), `c${(this.#made += 1)}`];
    const link = new Link(clock, this.api);
    const route = link.createRoute();
    const random = () => this.random.below(1000) / 1000;
    const controller = new Controller(
      {
        ...{ route, clock, random, client: new RoutedClient(route, clock, new AbortController().signal) },
        log: new ControllerLog(createRecordingLogger(), noEvents, clock),
        findDriver: loadDriver,
        onDrained: this.#gates.noteDrained.bind(this.#gates),
      },
      {
        ...{ namespace: 'vipnat-system', isDefaultClass: false, gateTypes: toGateTypes([otherGate]) },
        ...{ identity: `${name}_${randomUUID()}`, apiVips: [] },
      },
    );
    controller.start();
    const life = { clock, link, name };
    this.controllers.push(life);
    return life;
  }

  killController(life: ControllerLife): void {
    life.clock.kill();
    this.controllers = this.controllers.filter((one) => one !== life);
  }

  /** Time passes, and all is looked at many times meanwhile. */
  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= stepMs) {
      await this.clock.advance(Math.min(left, stepMs));
      this.#moveSeats();
      this.traffic.look();
      if (this.complaints.length > 0) return;
    }
  }

  /** The holder of each seat is the first of its machines that announces; who has it keeps it. */
  #moveSeats(): void {
    if (Math.floor(this.clock.now() / stepMs) % (vrrpMs / stepMs) !== 0) return;
    const pools = [...this.api.objects.list('AddressPool')];
    const seats = pools.flatMap(([pool, { status }]) =>
      ((status?.['seats'] ?? []) as readonly { index: number; nodes: readonly string[] }[]).map(
        ({ index, nodes }) => ({ seat: `${pool}/${index}`, nodes }),
      ),
    );
    for (const { seat, nodes } of seats) {
      const able = nodes.flatMap((name) => this.machines.filter((one) => one.name === name && canHold(one)));
      const holder = this.#seatToHolder.get(seat);
      const next = holder !== undefined && able.includes(holder) ? holder : able[0];
      if (next === undefined) this.#seatToHolder.delete(seat);
      else this.#seatToHolder.set(seat, next);
    }
    for (const machine of this.machines)
      machine.hold([...this.#seatToHolder].flatMap(([seat, holder]) => (holder === machine ? [seat] : [])));
  }

  #populate(): void {
    const { objects } = this.api;
    for (const namespace of ['apps', 'infra', 'default', 'vipnat-system'])
      objects.create('Namespace', namespace, {});
    for (const { name, place } of this.machines)
      objects.create('Node', name, {
        status: { addresses: [{ type: 'InternalIP', address: place.address }] },
      });
    const spec = {
      ...{ interface: 'auto', seats: 2, advert: '300ms', reuseAfter: '10s', autoAssign: true, priority: 0 },
      addresses: ['10.0.9.10-10.0.9.15'],
    };
    objects.create('AddressPool', 'first', { spec });
    for (const machine of this.machines) machine.startBalancer();
    this.startController();
  }

  #note(written: Written): void {
    // The first writes come while this world is made.
    if (written.kind === 'Namespace' || written.kind === 'Node') return;
    this.kubernetes.note(written);
    this.#gates.noteWrite(written);
  }
}

function canHold({ isUp, isAnnouncing }: Machine): boolean {
  return isUp && isAnnouncing;
}
