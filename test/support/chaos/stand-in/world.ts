import { families } from '../../../../lib/net.ts';
import { vips, listApiservers } from '../../network/layout.ts';
import { type Limits, defaultLimits } from '../engine/run-walk.ts';
import type { WorldKind, World } from '../engine/world.ts';
import { faults } from './faults.ts';
import { Cluster } from '../../network/cluster.ts';
import {
  type Truth,
  createTruth,
  type AgentHost,
  rememberLists,
  listMissed,
  forgetLists,
  agentHosts,
} from './truth.ts';
import { ControlPlane } from './control-plane.ts';
import type { Place } from './place.ts';
import type { Step } from '../engine/walk.ts';
import { performStep, type Stage } from './perform.ts';
import { healState, listSaved } from './state-faults.ts';
import { judgeProxy, judgeSeats, judgeHost, compareIdle, readIdle } from './judge.ts';
import { judgeRemains } from '../world/judge.ts';
import { listTraces } from '../../foreign/dump.ts';
import { AgentLife } from './agent-life.ts';
import { Host } from './host.ts';
import { Strangers } from './strangers.ts';
import { ProxyHealth } from './proxy-health.ts';

/** On a machine with no processor to spare an answer within 250 ms is too much to ask for. */
const probeOptions = ['--probe-timeout', '1500ms'];

const vipOptions = [...families.flatMap((family) => ['--vip', vips[family]]), ...probeOptions];
const listAll = (family: 'ipv4' | 'ipv6') =>
  listApiservers(family)
    .map(({ address, port }) => (family === 'ipv6' ? `[${address}]:${port}` : `${address}:${port}`))
    .join();

interface StandInOptions {
  /** Whether agents run under strace, and how they replace their state is judged; false when left out. */
  readonly watchesState?: boolean;
}

/** Its judgement sees by itself whether an idle agent writes, which takes as long as traffic does: once is enough. */
export const standInLimits: Limits = { ...defaultLimits, steadyMs: 0 };

/** The stand-in, with vipnat as this program with its interpreter: what scripts/build made, or a broken one. */
export function standIn(command: readonly string[], options: StandInOptions = {}): WorldKind {
  return { name: 'stand-in', faults, open: () => StandIn.open(command, options) };
}

/**
 * A miniature cluster in network namespaces. m1 and m2 have an agent, a kube-proxy and other strangers; m1's agent follows the
 * Kubernetes API, m2's has no credentials for it. m1 holds the VIPs at the start.
 */
class StandIn implements World {
  readonly #cluster: Cluster;
  readonly #truth: Truth = createTruth();
  readonly #controlPlane: ControlPlane;
  readonly #places = new Map<AgentHost, Place>();
  readonly #breaches: string[] = [];
  readonly #journal: string[] = [];

  private constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.#controlPlane = new ControlPlane(cluster, this.#truth);
  }

  static async open(command: readonly string[], options: StandInOptions): Promise<StandIn> {
    const world = new StandIn(await Cluster.create());
    try {
      await world.#build(command, options);
    } catch (error) {
      await world.close();
      throw error;
    }
    return world;
  }

  async perform(step: Step): Promise<void> {
    this.#note(JSON.stringify(step));
    await performStep(this.#stage, step);
    rememberLists(this.#truth);
    this.#noteEnds();
  }

  async calm(): Promise<void> {
    this.#note('quiet');
    await Promise.all(
      [...this.#places.values()].map(async ({ host, agent }) => {
        host.releaseLocks();
        await healState(host);
        await agent.calm();
      }),
    );
    for (let missed = listMissed(this.#truth); missed.length > 0; missed = listMissed(this.#truth))
      for (const name of missed) await this.#controlPlane.become(name, 'well');
    await this.#cluster.moveVips(this.#truth.holder);
  }

  async judge(): Promise<readonly string[]> {
    this.#noteEnds();
    for (const { agent } of this.#places.values()) agent.start();
    const proxies = [...this.#places].map(([name, place]) => judgeProxy(place, this.#truth, name));
    const behind = (await Promise.all(proxies)).flat();
    if (behind.length > 0) return behind;
    const before = await this.#readIdle();
    const judgements = [
      judgeSeats(this.#cluster, this.#truth),
      ...[...this.#places.values()].map((place) => judgeHost(place)),
    ];
    const judged = (await Promise.all(judgements)).flat();
    if (judged.length > 0) return judged;
    const written = compareIdle(before, await this.#readIdle());
    if (written.length === 0) forgetLists(this.#truth, await listSaved(this.#stage.places.m1.host));
    return written;
  }

  takeBreaches(): readonly string[] {
    return this.#breaches.splice(0);
  }

  async finish(): Promise<readonly string[]> {
    const complaints = [...this.#places.values()].map(async ({ agent, strangers }) => {
      const { name } = agent.host;
      const status = await agent.end('SIGTERM');
      const cleanup = await agent.command('cleanup', []);
      const { complaints: foreign, dump } = await strangers.compare();
      const sockets = await agent.host.shell('find /run/vipnat ! -type f ! -type d 2>/dev/null || true');
      return [
        ...(status === 0 ? [] : [`${name}: the agent ended with ${String(status)} when it was told to`]),
        ...judgeRemains(name, { cleanup, traces: listTraces(dump), sockets }),
        ...foreign,
      ];
    });
    return (await Promise.all(complaints)).flat();
  }

  describe(): string {
    const logs = [...this.#places].map(
      ([name, { agent }]) =>
        `--- the agent of ${name}:\n${agent.logTail}\n--- its processes:\n${agent.processes}`,
    );
    return ['--- what happened:', ...this.#journal.slice(-40), ...logs].join('\n');
  }

  async close(): Promise<void> {
    await this.#cluster.close();
    for (const { agent } of this.#places.values()) agent.remove();
    this.#controlPlane.remove();
  }

  async #build(command: readonly string[], { watchesState }: StandInOptions): Promise<void> {
    const kubeconfig = await this.#controlPlane.startApi();
    const ipv6 = ['--endpoints', listAll('ipv6')];
    const options: Readonly<Record<AgentHost, readonly string[]>> = {
      m1: [...vipOptions, '--kubeconfig', kubeconfig, ...ipv6],
      m2: [...vipOptions, '--endpoints', listAll('ipv4'), ...ipv6],
    };
    await Promise.all(
      agentHosts.map(async (name) => {
        const place = await this.#settle(name);
        this.#places.set(name, {
          ...place,
          agent: new AgentLife(place.host, command, options[name], watchesState),
        });
      }),
    );
    for (const { agent } of this.#places.values()) agent.start();
  }

  async #settle(name: AgentHost): Promise<Omit<Place, 'agent'>> {
    const { namespaces } = this.#cluster;
    const host = await Host.create(namespaces, name, this.#cluster.namespaceOf(name));
    const twin = await Host.create(namespaces, `twin of ${name}`, await namespaces.create(`twin-${name}`));
    const strangers = new Strangers(host, twin);
    const health = new ProxyHealth(host);
    const proxy = this.#truth.proxies[name];
    await strangers.settleIn(proxy);
    await health.say(proxy.mode);
    return { host, strangers, health };
  }

  async #readIdle(): Promise<ReadonlyMap<AgentHost, string>> {
    const readings = [...this.#places].map(async ([name, place]) => [name, await readIdle(place)] as const);
    return new Map(await Promise.all(readings));
  }

  #noteEnds(): void {
    for (const { agent } of this.#places.values()) {
      const end = agent.takeOwnEnd();
      if (end !== null) this.#breaches.push(end);
    }
  }

  #note(line: string): void {
    this.#journal.push(`${new Date().toISOString()} ${line}`);
  }

  get #stage(): Stage {
    const [m1, m2] = agentHosts.map((name) => this.#places.get(name));
    if (m1 === undefined || m2 === undefined) throw new Error('the stand-in is not built');
    return {
      cluster: this.#cluster,
      truth: this.#truth,
      controlPlane: this.#controlPlane,
      places: { m1, m2 },
      complain: (complaint) => this.#breaches.push(complaint),
    };
  }
}
