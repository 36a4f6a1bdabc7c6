/** One node: a machine with a kernel, a balancer's process that may be killed, and a keepalived. */
import type { Clock } from '../../../../lib/clock.ts';
import type { MemoryApi } from './memory-api.ts';
import type { Random } from '../../../support/random/random.ts';
import { type Connection, MachineKernel } from './machine-kernel.ts';
import { NodeHealth, type NodeWatch } from '../../../../balancer/nodes/health.ts';
import { LifeClock } from './life-clock.ts';
import { Link } from './memory-network.ts';
import { ToldSlices } from './told-slices.ts';
import { ToldNodes } from './told-nodes.ts';
import { type RecordingLogger, createRecordingLogger } from '../../../support/fakes/logger.ts';
import type { BalancerView } from '../../../../balancer/sync.ts';
import { startBalancerLife } from '../../../support/api/balancer-life.ts';
import { createLister } from '../../../../lib/kubernetes/list-watch.ts';
import { toLeaseName, toLeaseResource } from '../../../../lib/api/node.ts';
import { createRenewalReader } from '../../../../balancer/nodes/directory.ts';
import { RoutedClient } from '../../../../lib/kubernetes/writes.ts';
import type { ConnectOutcome } from '../../../../lib/http/client.ts';

/** What a machine has around it. */
export interface MachinePlace {
  readonly name: string;
  readonly address: string;
  readonly clock: Clock;
  readonly api: MemoryApi;
  readonly random: Random;
  /** What another machine answers. */
  readonly connect: (from: Machine, address: string) => boolean;
  readonly onForgotten: (machine: Machine, connection: Connection) => void;
  readonly onChange: (machine: Machine) => void;
  /** How a balancer's node health is looked at: as it is, or as a broken one has it. */
  readonly wrapNodes: (health: NodeHealth, silences: ReadonlyMap<string, number>) => NodeWatch;
}

/** What a balancer knows is in its table by then. */
const writtenMs = 5000;

/** A balancer's process. */
export interface Life {
  readonly clock: LifeClock;
  readonly link: Link;
  readonly told: ToldSlices;
  readonly toldNodes: ToldNodes;
  readonly logger: RecordingLogger;
  readonly nodes: NodeHealth;
  readonly bornMs: number;
  report: () => void;
  view: BalancerView | null;
}

export class Machine {
  readonly place: MachinePlace;
  kernel: MachineKernel;
  life: Life | null = null;
  isOn = true;
  /** Whether its network reaches other machines, and the API. */
  isReachable = true;
  /** Whether its keepalived runs. */
  isAnnouncing = true;
  /** When anything last was wrong with the machine or its network. */
  troubledMs = -Infinity;
  bootedMs: number;
  /** Whether its Node says that it ends, and when that last began or was over. */
  isEnding = false;
  endingMs = -Infinity;
  /** When it last got a seat, or lost one. */
  heldMs = -Infinity;
  /** The nodes that were out for the balancer that ended: until the next one has had time to write. */
  #formerOut: ReadonlySet<string> = new Set();
  /** When nodes were last back, by their names: the table has their pods a moment later. */
  readonly #nodeToBackMs = new Map<string, number>();
  seats: readonly string[] = [];

  constructor(place: MachinePlace) {
    this.place = place;
    this.bootedMs = place.clock.now();
    this.kernel = this.#createKernel();
  }

  get name(): string {
    return this.place.name;
  }

  /** Whether others reach it. */
  get isUp(): boolean {
    return this.isOn && this.isReachable;
  }

  /** The nodes whose pods its table leaves out, as they did not answer. */
  get out(): ReadonlySet<string> {
    const now = this.place.clock.now();
    const isNew = this.life === null || now - this.life.bornMs < writtenMs;
    const recent = [...this.#nodeToBackMs].flatMap(([node, atMs]) => (now - atMs < writtenMs ? [node] : []));
    const former = isNew ? this.#formerOut : [];
    return new Set([...former, ...recent, ...(this.life?.nodes.outages.out ?? [])]);
  }

  /** VRRP has moved seats. */
  hold(seats: readonly string[]): void {
    if (seats.join() === this.seats.join()) return;
    this.seats = seats;
    this.heldMs = this.place.clock.now();
    this.life?.nodes.setHolding(seats.length > 0);
    this.life?.report();
  }

  powerOff(): void {
    this.killBalancer();
    this.isOn = false;
    this.isAnnouncing = false;
    this.hold([]);
    this.noteTrouble();
  }

  /** With nothing left of what its kernel had. */
  powerOn(): void {
    this.isOn = true;
    this.isAnnouncing = true;
    this.bootedMs = this.place.clock.now();
    this.kernel = this.#createKernel();
    this.#formerOut = new Set();
    this.noteTrouble();
    this.startBalancer();
  }

  noteEnding(isEnding: boolean): void {
    if (this.isEnding === isEnding) return;
    this.isEnding = isEnding;
    this.endingMs = this.place.clock.now();
  }

  noteTrouble(): void {
    this.troubledMs = this.place.clock.now();
  }

  /** Its way to the API is as it is told, and as its network is. */
  cut(isCut: boolean): void {
    if (this.life === null) return;
    this.life.link.isCut = isCut || !this.isReachable;
  }

  killBalancer(): void {
    this.#formerOut = this.out;
    this.life?.clock.kill();
    this.life = null;
  }

  startBalancer(): void {
    if (!this.isOn || this.life !== null) return;
    const { clock: world, api, name, address, random } = this.place;
    const clock = new LifeClock(world);
    const link = new Link(clock, api);
    link.isCut = !this.isReachable;
    link.delayMs = 1 + random.below(5);
    const told = new ToldSlices(() => world.now());
    const toldNodes = new ToldNodes(() => world.now());
    link.onTold = (question, text) => {
      told.take(question, text);
      toldNodes.take(question, text);
    };
    const logger = createRecordingLogger();
    const route = link.createRoute();
    const nextRandom = () => random.below(1000) / 1000;
    const made: { life: Life | null } = { life: null };
    const started = startBalancerLife({
      ...{ route, clock, logger, node: name, kernel: this.kernel.serve(clock), random: nextRandom },
      listAddresses: () => [address],
      listSeats: () => this.seats,
      onView: (view) => {
        if (made.life !== null) made.life.view = view;
      },
      createNodes: (onChange) => {
        const silences = new Map<string, number>();
        const { signal } = new AbortController();
        const list = createLister(route, clock, signal);
        const readRenewal = createRenewalReader(new RoutedClient(route, clock, signal), 'vipnat-system');
        const health = new NodeHealth({
          ...{ clock, random: nextRandom, node: name, port: 10_256, onChange },
          families: () => new Set(['ipv4']),
          listLeases: () => list(toLeaseResource('vipnat-system')),
          readRenewal: (other) => readRenewal(toLeaseName(other)),
          logger: {
            ...logger,
            info: (line) => {
              this.#noteBack(line, world.now());
            },
          },
          connect: (to, limitMs) => this.#connect({ clock, onChange }, silences, to.address, limitMs),
        });
        made.life = {
          ...{ clock, link, told, toldNodes, logger, nodes: health, bornMs: world.now() },
          report: () => undefined,
          view: null,
        };
        return { health, watch: this.place.wrapNodes(health, silences) };
      },
    });
    const { life } = made;
    if (life === null) throw new TypeError('a balancer has its nodes');
    this.life = life;
    life.report = started.report;
    life.nodes.setHolding(this.seats.length > 0);
    life.nodes.start();
  }

  #noteBack(line: string, nowMs: number): void {
    const [, node] = /^node (\S+) is in use again/.exec(line) ?? [];
    if (node !== undefined) this.#nodeToBackMs.set(node, nowMs);
  }

  #connect(
    { clock, onChange }: { readonly clock: Clock; readonly onChange: () => void },
    silences: Map<string, number>,
    to: string,
    limitMs: number,
  ): Promise<ConnectOutcome> {
    return new Promise((resolve) => {
      const isAnswered = this.place.connect(this, to);
      clock.schedule(isAnswered ? 1 : limitMs, () => {
        silences.set(to, isAnswered ? 0 : (silences.get(to) ?? 0) + 1);
        resolve({ kind: isAnswered ? 'refused' : 'silent' });
        if (silences.get(to) === 2) onChange();
      });
    });
  }

  #createKernel(): MachineKernel {
    const { clock, onForgotten, onChange } = this.place;
    return new MachineKernel(clock, onForgotten.bind(null, this), onChange.bind(null, this));
  }
}
