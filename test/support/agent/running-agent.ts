import type { AskDuplicateOwner } from '../../../agent/vip-holder.ts';
import type { Config } from '../../../config/options.ts';
import { toEndpoint } from '../fakes/endpoints.ts';
import { FakeClock } from '../fakes/clock.ts';
import { FakeKernel } from '../fakes/kernel.ts';
import { type RecordingLogger, createRecordingLogger } from '../fakes/logger.ts';
import { Agent, type AgentPorts } from '../../../agent/agent.ts';
import { FakeMeter } from '../fakes/meter.ts';
import { FakeApiservers } from '../fakes/apiserver.ts';
import { FakeStore } from '../fakes/store.ts';
import { FakeNotices } from '../fakes/notices.ts';
import { FakeClusterApi } from '../fakes/cluster-api.ts';
import { RecordingEvents } from '../fakes/events.ts';
import { FakeDrain } from '../fakes/drain.ts';
import { type ReconcileState, emptyState } from '../../../agent/decide/decision.ts';
import type { TrackFile } from '../../../lib/keepalived/write.ts';
import type { VipnatError } from '../../../lib/errors.ts';
import { sleep } from '../../../lib/clock.ts';

/** An Ethernet with other hosts on it: who answers ARP for which address. */
class FakeLink {
  /** By address: the MAC of another host that has it. */
  readonly others = new Map<string, string>();
  /** A router that answers for every address, once set. */
  proxy: string | null = null;
  /** What every question fails with while it is set. */
  problem: Error | null = null;
  readonly asked: string[] = [];

  askDuplicateOwner: AskDuplicateOwner = ({ address, device }) => {
    this.asked.push(address);
    if (this.problem !== null) return Promise.reject(this.problem);
    const mac = this.others.get(address) ?? this.proxy;
    return Promise.resolve(mac === null ? null : { mac, device });
  };
}

export const ordinaryConfig: Config = {
  vips: [toEndpoint('10.0.0.50:6443')],
  mode: 'auto',
  method: 'random',
  proxyMode: 'auto',
  iptables: 'auto',
  clusterIps: {},
  endpoints: [],
  masquerade: 'own',
  probeIntervalMs: 250,
  probeTimeoutMs: 250,
  sysctls: 'set',
  localClients: 'keep',
  caFile: null,
  kubeconfig: null,
  nodeName: null,
  stateDir: '/var/lib/vipnat',
  runDir: '/run/vipnat',
  listen: null,
  logLevel: 'info',
  logFormat: 'pretty',
};

export interface RunningAgent {
  readonly clock: FakeClock;
  readonly kernel: FakeKernel;
  readonly logger: RecordingLogger;
  readonly agent: Agent;
  readonly meter: FakeMeter;
  readonly apiservers: FakeApiservers;
  readonly store: FakeStore;
  readonly trackFile: FakeTrackFile;
  readonly notices: FakeNotices;
  /** What the agent asks as the Kubernetes API: one that says nothing until it is told to. */
  readonly api: FakeClusterApi;
  readonly events: RecordingEvents;
  /** What its state folder and its kernel say of a drain. */
  readonly drain: FakeDrain;
  readonly link: FakeLink;
}

/** What an agent is started with; a kernel needs its clock. */
export interface AgentWorld {
  readonly config?: Config;
  readonly clock?: FakeClock;
  readonly kernel?: FakeKernel;
  /** What kube-proxy answers when it is asked for its mode. */
  readonly answer?: string | null;
  readonly answerMs?: number;
  /** The apiservers; healthy ones wherever they are asked for, when left out. */
  readonly apiservers?: FakeApiservers;
  readonly memory?: ReconcileState;
  readonly store?: FakeStore;
  /** In place of the fakes. */
  readonly ports?: Partial<AgentPorts>;
}

/** Starts an agent; nothing has happened until the clock is advanced. */
export function startAgent(world: AgentWorld = {}): RunningAgent {
  const { config = ordinaryConfig, clock = new FakeClock(), answer = null, answerMs = 0 } = world;
  const kernel = world.kernel ?? new FakeKernel(clock);
  const logger = createRecordingLogger();
  const askProxyMode = async () => {
    if (answerMs > 0) await sleep(clock, answerMs);
    return answer;
  };
  const apiservers = world.apiservers ?? new FakeApiservers(clock);
  const { memory = emptyState, store = new FakeStore() } = world;
  const meter = new FakeMeter();
  const trackFile = new FakeTrackFile();
  const notices = new FakeNotices();
  let api = new FakeClusterApi();
  const followApi = (onChange: () => void) => (api = new FakeClusterApi(onChange));
  const events = new RecordingEvents();
  const drain = new FakeDrain();
  const files = { store, trackFile, notices, drain };
  const effects = { kernel, clock, logger, meter, apiserver: apiservers, events };
  const readListening = () => Promise.resolve([{ address: '::', port: 6443 }]);
  const link = new FakeLink();
  const { askDuplicateOwner } = link;
  const asked = { askProxyMode, readListening, followApi, askDuplicateOwner };
  const agent = new Agent({ ...effects, ...files, ...asked, ...world.ports }, config, memory);
  agent.start();
  return { clock, kernel, logger, meter, apiservers, agent, ...files, api, events, link };
}

/** The lines of a level, without times. */
export function linesOf({ logger }: Pick<RunningAgent, 'logger'>, level: string): string[] {
  return logger.lines.filter((line) => line.level === level).map(({ message }) => message);
}

/** A track file that remembers all that was written, and fails where told to. */
class FakeTrackFile implements TrackFile {
  readonly location = '/run/vipnat/keepalived/serving';
  readonly values: number[] = [];
  /** What every attempt fails with while it is set. */
  problem: VipnatError | null = null;
  attempts = 0;

  /** What is seen of keepalived. */
  guard: Awaited<ReturnType<TrackFile['view']>> = { isWatched: null };
  readonly view = () => Promise.resolve(this.guard);

  /** What is in it: others write, too. */
  content: number | null = null;

  read(): Promise<boolean | null> {
    return Promise.resolve(this.content === null ? null : this.content === 0);
  }

  write(value: number): Promise<void> {
    this.attempts += 1;
    if (this.problem !== null) return Promise.reject(this.problem);
    this.values.push(value);
    this.content = value;
    return Promise.resolve();
  }
}
