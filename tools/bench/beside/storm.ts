import type { LabObjects } from './lab-objects.ts';
import {
  type BenchService,
  locateSlice,
  makeSlice,
  orderServices,
  type Order,
  orderRest,
  servicesPath,
} from '../shared/service-objects.ts';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { serviceCount, toService, endpointPort, changeEndpoint } from './objects.ts';
import { ServiceWriter } from '../shared/service-writer.ts';
import { waitUntil } from '../shared/wait.ts';
import { virtualIps } from '../../../lib/api/vipnat.ts';

/** Ten changes of endpoints a second. */
const everyMs = 100;

/** One Service a second comes, and goes again after so many of them. */
const changesPerService = 10;
const passing = 5;

/** What came of a storm so far. */
export interface StormCounts {
  /** Objects that were written. */
  readonly written: number;
  readonly failed: number;
}

/** Many Services of type LoadBalancer that change all the time. */
export class Storm {
  readonly #objects: LabObjects;
  readonly #services: BenchService[];
  readonly #stream: ChildProcess;
  readonly #ended: Promise<unknown>;
  readonly #nameOfOrder = new Map<number, BenchService>();
  readonly #extra: BenchService[] = [];
  #timer: NodeJS.Timeout | undefined;
  #sent = 0;
  #changes = 0;
  #counts = { written: 0, failed: 0 };

  private constructor(objects: LabObjects, services: readonly BenchService[]) {
    this.#objects = objects;
    this.#services = [...services];
    this.#stream = objects.stream();
    this.#ended = once(this.#stream, 'exit');
    if (this.#stream.stdout === null) throw new Error('a stream without an output');
    createInterface({ input: this.#stream.stdout }).on('line', (line) => {
      this.#hear(JSON.parse(line) as { index?: number; uid?: string; error?: string });
    });
    this.resume();
  }

  /** Writes all Services, and changes them from then on. */
  static async raise(objects: LabObjects): Promise<Storm> {
    const services = Array.from({ length: serviceCount }, (_, number) => toService(number));
    await new ServiceWriter(objects, endpointPort).growTo(services);
    return new Storm(objects, services);
  }

  /** So far. */
  get counts(): StormCounts {
    return this.#counts;
  }

  /** Has nothing changed for a while; what was sent is still written. */
  pause(): void {
    clearInterval(this.#timer);
  }

  /** Goes on with the changes. */
  resume(): void {
    clearInterval(this.#timer);
    this.#timer = setInterval(() => {
      this.#change();
    }, everyMs);
  }

  /** Ends the changes, and leaves everything as it is. */
  abandon(): void {
    this.pause();
    this.#stream.stdin?.end();
  }

  /** Ends the changes and removes all Services. */
  async end(): Promise<void> {
    this.pause();
    await waitUntil('the last Service is written', () => Promise.resolve(this.#nameOfOrder.size === 0));
    this.#stream.stdin?.end();
    await this.#ended;
    await this.#objects.write([...this.#services, ...this.#extra].flatMap(orderRemoval));
  }

  #change(): void {
    const number = this.#changes;
    this.#changes += 1;
    const place = number % this.#services.length;
    const changed = changeEndpoint(this.#services[place] ?? toService(0), number);
    this.#services[place] = changed;
    this.#send({
      ...{ stage: 0, method: 'PUT', path: locateSlice(changed) },
      body: makeSlice(changed, endpointPort),
    });
    if (number % changesPerService === 0) this.#passService(number / changesPerService);
  }

  /** One comes, whose rest follows when its UID is known; one goes. */
  #passService(number: number): void {
    const service = toService(serviceCount + number);
    for (const order of orderServices([service], endpointPort)) {
      this.#nameOfOrder.set(this.#sent, service);
      this.#send(order);
    }
    if (this.#extra.length < passing) return;
    const [oldest] = this.#extra.splice(0, 1);
    if (oldest !== undefined) for (const order of orderRemoval(oldest)) this.#send(order);
  }

  #send(order: Order): void {
    if (this.#stream.stdin?.writableEnded === true) return;
    this.#stream.stdin?.write(`${JSON.stringify(order)}\n`);
    this.#sent += 1;
  }

  #hear({ index, uid = '', error }: { index?: number; uid?: string; error?: string }): void {
    if (index === undefined) return;
    const { written, failed } = this.#counts;
    this.#counts = error === undefined ? { written: written + 1, failed } : { written, failed: failed + 1 };
    const service = this.#nameOfOrder.get(index);
    this.#nameOfOrder.delete(index);
    if (service === undefined || error !== undefined) return;
    this.#extra.push(service);
    for (const order of orderRest([service], endpointPort, new Map([[service.name, uid]]))) this.#send(order);
  }
}

/** All that goes with a Service. */
function orderRemoval(service: BenchService): Order[] {
  const paths = [
    `${servicesPath}/${service.name}`,
    locateSlice(service),
    `${virtualIps.path}/${service.vip}`,
  ];
  const body = { apiVersion: 'v1', kind: 'DeleteOptions' };
  return paths.map((path) => ({ stage: 0, method: 'DELETE', path, body }));
}
