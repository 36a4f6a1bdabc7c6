import type { MakeMonitor } from './world.ts';
import { type MonitorOptions, HealthMonitor } from '../../../../agent/health/monitor.ts';
import { formatEndpoint } from '../../../../lib/net.ts';
import type { Apiserver, HeldConnection, ReadyzOutcome } from '../../../../agent/health/apiserver.ts';

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
  'hears of no drain': { complaint: 'and its host is drained', make: hearNoDrain },
  'takes 2.5 s of silence for a freeze, whoever answers': {
    complaint: 'is frozen as all are, and out',
    make: (options) => decideOtherwise(options, { ms: 2500, needsWitness: false }),
  },
  'takes 1 s of silence for a freeze': {
    complaint: 'is slow or well, and out',
    make: (options) => decideOtherwise(options, { ms: 1000, needsWitness: true }),
  },
  'makes nothing of pings': { complaint: 'is frozen, and gets connections', make: hearNoSilence },
  'hears no bad answer': {
    complaint: 'fails and is kept',
    make: (options) =>
      askOtherwise(options, async (held, limitMs) => {
        const outcome = await held.ask(limitMs);
        return outcome.kind === 'failing' ? { kind: 'ready' } : outcome;
      }),
  },
};

/** Pings that one does not answer for so long are enough for it; where it needs a witness, another one that does answer. */
function decideOtherwise(
  options: MonitorOptions,
  { ms, needsWitness }: { readonly ms: number; readonly needsWitness: boolean },
): ReturnType<MakeMonitor> {
  const { apiserver, clock } = options;
  const askedAt = new Map<string, number>();
  const monitor = new HealthMonitor({
    ...options,
    apiserver: wrap(apiserver, {
      openPingConnection: (endpoint, listener) => {
        const text = formatEndpoint(endpoint);
        const connection = apiserver.openPingConnection(endpoint, {
          ...listener,
          onReceived: (isAnswer) => {
            askedAt.delete(text);
            listener.onReceived(isAnswer);
          },
        });
        return {
          get isConnected() {
            return connection.isConnected;
          },
          send: () => {
            askedAt.set(text, clock.now());
            connection.send();
          },
          close: () => {
            connection.close();
          },
        };
      },
    }),
  });
  const isLate = (text: string) => clock.now() - (askedAt.get(text) ?? Infinity) >= ms;
  const isOut = (text: string) =>
    isLate(text) && (!needsWitness || [...monitor.view.keys()].some((other) => !isLate(other)));
  return {
    get view() {
      return new Map(
        [...monitor.view].map(([text, one]) => [
          text,
          isOut(text) ? { ...one, state: 'draining' as const } : one,
        ]),
      );
    },
    watch: (watched) => monitor.watch(watched),
    stop: () => {
      monitor.stop();
    },
  };
}

/** Nobody answers its pings, and it makes nothing of that. */
function hearNoSilence(options: MonitorOptions): HealthMonitor {
  const openPingConnection: Apiserver['openPingConnection'] = () => ({
    isConnected: false,
    send: () => undefined,
    close: () => undefined,
  });
  return new HealthMonitor({ ...options, apiserver: wrap(options.apiserver, { openPingConnection }) });
}

/** Some of its ways are others. */
function wrap(apiserver: Apiserver, others: Partial<Apiserver>): Apiserver {
  return {
    connect: (endpoint, limitMs) => apiserver.connect(endpoint, limitMs),
    checkDrain: (endpoint, limitMs) => apiserver.checkDrain(endpoint, limitMs),
    hold: (endpoint, onClose) => apiserver.hold(endpoint, onClose),
    openPingConnection: (endpoint, listener) => apiserver.openPingConnection(endpoint, listener),
    ...others,
  };
}

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

function hearNoDrain(options: MonitorOptions): HealthMonitor {
  const checkDrain: Apiserver['checkDrain'] = () => Promise.resolve('unknown');
  return new HealthMonitor({ ...options, apiserver: wrap(options.apiserver, { checkDrain }) });
}

type Ask = (held: HeldConnection, limitMs: number) => Promise<ReadyzOutcome>;

/** The product's monitor, whose questions go this way. */
function askOtherwise(options: MonitorOptions, ask: Ask): HealthMonitor {
  const { apiserver } = options;
  return new HealthMonitor({
    ...options,
    apiserver: wrap(apiserver, {
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
    }),
  });
}
