import { type HeldConnection, type ReadyzOutcome } from '../../../../agent/probe/apiserver.ts';
import { HealthMonitor, type MonitorOptions } from '../../../../agent/health/monitor.ts';
import { type MakeMonitor } from './world.ts';

/** Broken monitors, and the complaint that belongs to each. */
export const broken: Readonly<Record<string, { readonly make: MakeMonitor; readonly complaint: string }>> = {
  'begins anew with every list': { complaint: 'within a second (I13)', make: beginAnew },
  'asks each question twice': {
    complaint: 'is asked',
    make: (options) =>
      askOtherwise(options, async (held, limitMs) => {
        await held.ask(limitMs);
        return await held.ask(limitMs);
      }),
  },
  'hears no bad answer': {
    complaint: 'fails and is kept',
    make: (options) =>
      askOtherwise(options, async (held, limitMs) => {
        const outcome = await held.ask(limitMs);
        return outcome.kind === 'failing' ? { kind: 'ready' } : outcome;
      }),
  },
};

function beginAnew(options: MonitorOptions): ReturnType<MakeMonitor> {
  let monitor = new HealthMonitor(options);
  return {
    get view() {
      return monitor.view;
    },
    watch: (watched) => {
      monitor.stop();
      monitor = new HealthMonitor(options);
      return monitor.watch(watched);
    },
    stop: () => {
      monitor.stop();
    },
  };
}

type Ask = (held: HeldConnection, limitMs: number) => Promise<ReadyzOutcome>;

/** The product's monitor, whose questions go this way. */
function askOtherwise(options: MonitorOptions, ask: Ask): HealthMonitor {
  const { apiserver } = options;
  return new HealthMonitor({
    ...options,
    apiserver: {
      connect: (endpoint, limitMs) => apiserver.connect(endpoint, limitMs),
      hold: (endpoint, onClose) => {
        const held = apiserver.hold(endpoint, onClose);
        return {
          get isOpen() {
            return held.isOpen;
          },
          ask: (limitMs) => ask(held, limitMs),
          close: () => {
            held.close();
          },
        };
      },
    },
  });
}
