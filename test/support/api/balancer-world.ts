/** A balancer as a whole: an API on a local socket, a kernel in memory, and a clock that stands still. */
import { FakeBalancerKernel } from '../fakes/balancer-kernel.ts';
import { FakeClock } from '../fakes/clock.ts';
import { type RecordingLogger, createRecordingLogger } from '../fakes/logger.ts';
import { KubeApi } from '../kube-api/kube-api.ts';
import type { BalancerView } from '../../../balancer/sync.ts';
import type { BalancedFlow } from '../../../lib/kernel/port.ts';
import type { Certificates } from '../../../tools/lab/certificates/certificates.ts';
import type { ApiRoute } from '../../../lib/kubernetes/route.ts';
import { routeTo, settle, useCertificates } from './api-world.ts';
import { startBalancerLife, toWholeKernel } from './balancer-life.ts';
import { makeEndpoints, makeLoadBalancer, makeVirtualIp } from '../kube-api/service-objects.ts';
import type { KubeObject } from '../kube-api/kube-store.ts';
import { WaitedTooLong } from '../jest/waiting.ts';
import type { BalancerKernel } from '../../../lib/kernel/kernel.ts';
import { beforeEach, afterEach } from '@jest/globals';
import { serviceQuestions } from '../kube-api/service-questions.ts';

const node = 'n1';

export class BalancerWorld {
  readonly kernel = new FakeBalancerKernel();
  readonly clock = new FakeClock();
  readonly logger: RecordingLogger = createRecordingLogger();
  api: KubeApi;
  /** What the balancer said last. */
  view: BalancerView | null = null;
  addresses = ['10.77.0.11'];
  /** How often the balancer listed a table. */
  lists = 0;
  ruleCount = 0;
  hasKubeProxy = true;
  connections: readonly BalancedFlow[] = [];
  /** Why connections cannot be listed. */
  walkFailure: Error | null = null;
  /** For as long as this is not resolved, nft hangs. */
  hang: Promise<void> = Promise.resolve();
  readonly #certificates: Certificates;
  readonly #route: ApiRoute;
  #noteGeneration: () => void = () => undefined;
  #stop: () => Promise<void> = () => Promise.resolve();

  private constructor(api: KubeApi, certificates: Certificates) {
    this.api = api;
    this.#certificates = certificates;
    this.#route = routeTo(certificates.authority, [`127.0.0.1:${api.port}`]);
  }

  /** An API with the Services `web` and `other`, and no balancer yet. */
  static async start(certificates: Certificates): Promise<BalancerWorld> {
    const world = new BalancerWorld(await startApi(certificates, {}), certificates);
    world.addService('web', '10.77.0.60');
    world.addService('other', '10.77.0.61');
    return world;
  }

  get lease() {
    return this.api.leases.find(`vipnat-lb-${node}`);
  }

  /** The log's texts of a level, or all; those that have this in them. */
  readLog(level?: string, text = ''): string[] {
    return this.logger.lines
      .filter((line) => (level === undefined || line.level === level) && line.message.includes(text))
      .map(({ message }) => message);
  }

  /** The scripts that nft has taken, from this one on, which have this in them. */
  listScripts(from: number, text: string): string[] {
    return this.kernel.scripts.slice(from).filter((script) => script.includes(text));
  }

  startBalancer(): void {
    const { clock, logger } = this;
    const life = startBalancerLife({
      ...{ route: this.#route, clock, logger, kernel: this.#createKernel(), node },
      listAddresses: () => this.addresses,
      hasKubeProxy: () => Promise.resolve(this.hasKubeProxy),
      onView: (view) => (this.view = view),
    });
    this.#stop = life.stop;
  }

  async stopBalancer(): Promise<void> {
    const stopped = this.#stop();
    await this.pass(1);
    await stopped;
    this.#stop = () => Promise.resolve();
  }

  async stop(): Promise<void> {
    await this.stopBalancer();
    await this.api.stop();
  }

  /** Another API at the same place, with what the one before had. */
  async bringApi(): Promise<void> {
    const { store, port } = this.api;
    this.api = await startApi(this.#certificates, { store, port });
  }

  /** Sets the endpoints of a Service. */
  list(name: string, ...pods: readonly string[]): void {
    this.api.store.put('EndpointSlice', makeEndpoints(name, [{ port: 8080 }], pods));
  }

  /** A Service with two endpoints and an address. */
  addService(name: string, address: string, spec: object = {}): void {
    this.api.store.put('Service', makeLoadBalancer(name, [{ port: 80 }]));
    this.list(name, '10.244.1.2', '10.244.2.2');
    const virtualIp = makeVirtualIp(address, [name]);
    const merged: KubeObject = { ...virtualIp, spec: { ...(virtualIp['spec'] as object), ...spec } };
    this.api.store.put('VirtualIP', merged);
  }

  /** Another program has changed something. */
  noteGeneration(): void {
    this.#noteGeneration();
  }

  /** Goes on in steps, and between them questions arrive. */
  async pass(seconds: number, stepMs = 500): Promise<void> {
    for (let at = 0; at < seconds * 1000; at += stepMs) {
      await this.clock.advance(stepMs);
      await settle([this.api]);
    }
  }

  print(): Promise<string> {
    return this.kernel.listTable('ip vipnat-lb');
  }

  async untilPrinted(pattern: RegExp): Promise<void> {
    await this.until(async () => pattern.test(await this.print()), `printed ${pattern.source}`);
  }

  /** Until something is so; 20 seconds at most. */
  async until(isSo: () => boolean | Promise<boolean>, what: string): Promise<void> {
    for (let left = 400; left > 0; left -= 1) {
      if (await isSo()) return;
      await this.clock.advance(50);
      await settle([this.api]);
    }
    throw new WaitedTooLong(`never came true: ${what}\n${await this.print()}\n${this.readLog().join('\n')}`);
  }

  #createKernel(): BalancerKernel {
    const { kernel } = this;
    const whole = toWholeKernel(kernel);
    return {
      ...whole,
      listTable: (table) => {
        this.lists += 1;
        return whole.listTable(table);
      },
      countRules: () => Promise.resolve(this.ruleCount),
      apply: async (script) => {
        await this.hang;
        await whole.apply(script);
      },
      changeElements: async (changes) => {
        await this.hang;
        return await whole.changeElements(changes);
      },
      forgetFlows: (_, isChosen) => {
        if (this.walkFailure !== null) return Promise.reject(this.walkFailure);
        const isGone = (flow: BalancedFlow) =>
          isChosen({ ...flow, isOpen: true, isAnswered: true, isEstablished: true });
        const { true: gone = [], false: left = [] } = Object.groupBy(this.connections, (flow) =>
          isGone(flow) ? 'true' : 'false',
        );
        this.connections = left;
        return Promise.resolve(gone.map((flow) => ({ ...flow, count: 1 })));
      },
      watchGeneration: ({ onChange }) => {
        this.#noteGeneration = onChange;
        return { ready: Promise.resolve(), stop: () => Promise.resolve() };
      },
    };
  }
}

/** A world for each test, which ends with it. What a test needs first is `prepare`d. */
export function useBalancerWorld(
  prepare: (world: BalancerWorld) => unknown = () => undefined,
): () => BalancerWorld {
  const certificates = useCertificates();
  let world: BalancerWorld | null = null;
  beforeEach(async () => {
    world = await BalancerWorld.start(certificates());
    await prepare(world);
  });
  afterEach(async () => {
    await world?.stop();
  });
  return () => {
    if (world === null) throw new TypeError('there is a world within a test only');
    return world;
  };
}

async function startApi(
  certificates: Certificates,
  place: Pick<Parameters<typeof KubeApi.start>[0], 'store' | 'port'>,
): Promise<KubeApi> {
  const pair = certificates.serving('m1');
  const api = await KubeApi.start({ ...place, pair, questions: serviceQuestions });
  api.allowsAll = true;
  return api;
}
