import { type Endpoint } from '../../../lib/address/endpoint.ts';
import { podParameter } from '../../../agent/http/pages.ts';
import { type Config } from '../../../config/config.ts';
import { type Comment } from './yaml.ts';

/** The probes of a container, and comments for them. */
export interface Probes {
  readonly value: object;
  readonly comments: readonly Comment[];
}

/**
 * How the kubelet asks the agent of a pod of this kind at `--listen`: from the host's network, which both are in. None where it is off. Only a loop that
 * hangs for minutes is a reason to start anew: what it last wrote stays either way.
 */
export function toProbes({ listen }: Pick<Config, 'listen'>, pod: string): Probes {
  if (listen === null) return { value: {}, comments: [] };
  const ask = (path: string) => ({
    path: `${path}?${podParameter}=${pod}`,
    host: chooseHost(listen),
    port: listen.port,
  });
  return {
    value: {
      startupProbe: { httpGet: ask('/healthz'), periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 30 },
      readinessProbe: { httpGet: ask('/readyz'), periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3 },
      livenessProbe: { httpGet: ask('/healthz'), periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6 },
    },
    comments: [
      {
        path: ['startupProbe'],
        text: 'A probe names its pod: while this one waits for another agent of the host, that agent is at its port, and answers for it.',
      },
      {
        path: ['livenessProbe'],
        text: 'It fails when the loop hangs, not when the API or a tool does: then a restart would not help.',
      },
    ],
  };
}

/** Who listens at every address is asked at the loopback one. */
function chooseHost({ address }: Endpoint): string {
  if (address === '0.0.0.0') return '127.0.0.1';
  return address === '::' ? '::1' : address;
}
