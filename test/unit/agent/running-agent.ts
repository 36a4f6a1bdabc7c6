import { type Config } from '../../../agent/config/config.ts';
import { Loop } from '../../../agent/loop.ts';
import { Report } from '../../../agent/report.ts';
import { FakeClock } from '../../fakes/clock.ts';
import { toEndpoint } from '../../fakes/endpoints.ts';
import { FakeKernel } from '../../fakes/kernel.ts';
import { createRecordingLogger, type RecordingLogger } from '../../fakes/logger.ts';

/** The ordinary configuration: one VIP, and nothing else said. */
export const ordinaryConfig: Config = {
  vips: [toEndpoint('10.0.0.50:6443')],
  mode: 'auto',
  proxyMode: 'auto',
  iptables: 'auto',
  clusterIps: {},
  endpoints: [],
  masquerade: 'own',
  logLevel: 'info',
  logFormat: 'pretty',
};

/** An agent in a world of fakes. */
export interface RunningAgent {
  readonly clock: FakeClock;
  readonly kernel: FakeKernel;
  readonly logger: RecordingLogger;
  readonly loop: Loop;
}

/** What an agent is started with; a kernel needs its clock. */
export interface AgentWorld {
  readonly config?: Config;
  readonly clock?: FakeClock;
  readonly kernel?: FakeKernel;
  /** What kube-proxy answers when it is asked for its mode. */
  readonly answer?: string | null;
  /** How long it takes to answer. */
  readonly answerMs?: number;
}

/** Starts an agent; nothing has happened until the clock is advanced. */
export function startAgent(world: AgentWorld = {}): RunningAgent {
  const { config = ordinaryConfig, clock = new FakeClock(), answer = null, answerMs = 0 } = world;
  const kernel = world.kernel ?? new FakeKernel(clock);
  const logger = createRecordingLogger();
  const report = new Report(logger, clock);
  const askProxyMode = () =>
    new Promise<string | null>((resolve) => {
      if (answerMs === 0) resolve(answer);
      else
        clock.schedule(answerMs, () => {
          resolve(answer);
        });
    });
  const loop = new Loop({ kernel, askProxyMode, clock, report }, config);
  loop.start();
  return { clock, kernel, logger, loop };
}

/** The lines of a level, without times. */
export function linesOf({ logger }: Pick<RunningAgent, 'logger'>, level: string): string[] {
  return logger.lines.filter((line) => line.level === level).map(({ message }) => message);
}
