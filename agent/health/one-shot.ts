import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { type Apiserver } from '../probe/apiserver.ts';
import { type EndpointHealth } from './endpoint-health.ts';
import { HealthMonitor } from './monitor.ts';
import { type Watched } from './watched.ts';
import { type ProbeSettings } from '../probe/prober.ts';
import { type Health, type HealthView } from './usable.ts';

/** Who hangs for longer is not waited for: slow is not dead. */
const patienceMs = 1500;

/** What a command that runs once needs to probe for itself. */
export interface OneShotOptions {
  readonly apiserver: Apiserver;
  readonly clock: Clock;
  readonly settings: ProbeSettings;
}

/**
 * Probes apiservers for as long as it takes to know: by the same rules as the agent, milliseconds when all is well. Who is
 * left out by rules that are there, and has not shown within that time that it is well, stays out.
 */
export async function probeOnce(options: OneShotOptions, watched: Watched): Promise<HealthView> {
  const { clock } = options;
  return await new Promise((resolve) => {
    const monitor = new HealthMonitor({ ...options, onChange: () => undefined, onResult: finishWhenKnown });
    let cancel = clock.schedule(watched.endpoints.length === 0 ? 0 : patienceMs, goOn);
    monitor.watch(watched);
    let hasReserve = monitor.hasReserve;

    function finishWhenKnown(): void {
      if (monitor.isAllTried && monitor.all.every(isKnown)) goOn();
    }

    /** As the agent's next look would: only now it is known whether anybody else is to be probed. */
    function goOn(): void {
      cancel();
      if (!hasReserve) {
        monitor.watch(watched);
        hasReserve = monitor.hasReserve;
        if (hasReserve) {
          cancel = clock.schedule(patienceMs, finish);
          return;
        }
      }
      finish();
    }

    function finish(): void {
      cancel();
      monitor.stop();
      resolve(new Map([...monitor.view, ...monitor.all.filter(hasProved).map(toReady)]));
    }
  });
}

/** Whether further probes would most likely show the same: it is out of use for what was seen of it, or is well. */
function isKnown(one: EndpointHealth): boolean {
  const { state, history } = one;
  return state === 'dead' || isWell(one) || (state !== 'ready' && history.failure !== null);
}

/** It has answered both kinds of probes. */
function isWell({ history }: EndpointHealth): boolean {
  return history.connect === 'open' && history.readyAnswers > 0;
}

/** Whoever probes once cannot wait for three good answers. */
function hasProved(one: EndpointHealth): boolean {
  return one.state === 'warming' && isWell(one);
}

function toReady({ endpoint, isOwn }: EndpointHealth): [string, Health] {
  const health = { state: 'ready', reason: 'a good answer', staleConnections: 'none' } as const;
  return [formatEndpoint(endpoint), isOwn ? { ...health, isOwn } : health];
}
