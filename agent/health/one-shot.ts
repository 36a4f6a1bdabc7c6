import { type Clock } from '../../lib/kernel/clock.ts';
import { type Apiserver } from './apiserver.ts';
import { type EndpointHealth } from './endpoint-health.ts';
import { HealthMonitor, type Watched } from './monitor.ts';
import { type ProbeSettings } from './prober.ts';
import { type HealthView } from './usable.ts';

/** Who hangs for longer is not waited for: slow is not dead. */
const patienceMs = 1500;

/** What a command that runs once needs to probe for itself. */
export interface OneShotOptions {
  readonly apiserver: Apiserver;
  readonly clock: Clock;
  readonly settings: ProbeSettings;
}

/** Probes apiservers for as long as it takes to know: by the same rules as the agent, milliseconds when all is well. */
export async function probeOnce(options: OneShotOptions, watched: Watched): Promise<HealthView> {
  const { clock } = options;
  return await new Promise((resolve) => {
    const monitor = new HealthMonitor({ ...options, onChange: () => undefined, onEvidence: finishWhenKnown });
    const cancel = clock.schedule(watched.endpoints.length === 0 ? 0 : patienceMs, finish);
    monitor.watch(watched);

    function finishWhenKnown(): void {
      if (monitor.all.every(isKnown)) finish();
    }

    function finish(): void {
      cancel();
      monitor.stop();
      resolve(monitor.view);
    }
  });
}

/** Whether further probes would most likely show the same: it is out of use, or has answered both kinds. */
function isKnown({ state, symptoms }: EndpointHealth): boolean {
  return state !== 'ready' || (symptoms.connect === 'open' && symptoms.readyAnswers > 0);
}
