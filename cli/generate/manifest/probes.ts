import { type Endpoint } from '../../../lib/address/endpoint.ts';
import { locateLiveness, type PodKind } from '../../../agent/http/liveness.ts';
import { healthzPath, podParameter } from '../../../agent/http/pages.ts';
import { type Config } from '../../../config/config.ts';
import { type Comment } from './yaml.ts';

/** The probes of a container, and comments for them. */
export interface Probes {
  readonly value: object;
  readonly comments: readonly Comment[];
}

/**
 * How the kubelet asks the agent of a pod of this kind: from the host's network, which both are in. None where it is off. Only a loop that
 * hangs for minutes is a reason to start anew: what it last wrote stays either way.
 */
export function toProbes({ listen }: Pick<Config, 'listen'>, pod: PodKind): Probes {
  if (listen === null) return { value: {}, comments: [] };
  const { address: host, port } = locateLiveness(listen, pod);
  const isAlive = { httpGet: { path: healthzPath, host, port } };
  const isReady = {
    httpGet: { path: `/readyz?${podParameter}=${pod}`, host: chooseHost(listen), port: listen.port },
  };
  return {
    value: {
      startupProbe: { ...isAlive, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 30 },
      readinessProbe: { ...isReady, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3 },
      livenessProbe: { ...isAlive, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6 },
    },
    comments: [
      {
        path: ['startupProbe'],
        text: 'The pod has a port of its own for this. Another agent of the host may have the port of --listen.',
      },
      {
        path: ['readinessProbe'],
        text: 'The probe names its pod, because another agent answers while this pod waits.',
      },
      {
        path: ['livenessProbe'],
        text: 'It fails only if the agent hangs. If the API or a tool fails, a restart would not help.',
      },
    ],
  };
}

/** Who listens at every address is asked at the loopback one. */
function chooseHost({ address }: Endpoint): string {
  if (address === '0.0.0.0') return '127.0.0.1';
  return address === '::' ? '::1' : address;
}
