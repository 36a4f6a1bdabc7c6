import { type Endpoint } from '../../../lib/address/endpoint.ts';
import { type PodKind, podParameter } from '../../../lib/telemetry/pod-kind.ts';
import { heartbeatProbe } from '../../../lib/telemetry/heartbeat.ts';
import { type Config } from '../../../config/config.ts';
import { type Comment } from './yaml.ts';

/** The probes of a container, and comments for them. */
export interface Probes {
  readonly value: object;
  readonly comments: readonly Comment[];
}

/**
 * How the kubelet asks the agent of a pod of this kind: whether it is alive by a program in its container, and whether it is
 * ready from the host's network, unless nothing is served there. Only a loop that hangs for minutes is a reason to start
 * anew: what it last wrote stays either way.
 */
export function toProbes({ listen }: Pick<Config, 'listen'>, pod: PodKind): Probes {
  const isAlive = { exec: { command: [...heartbeatProbe] } };
  return {
    value: {
      startupProbe: { ...isAlive, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 30 },
      ...(listen === null ? {} : { readinessProbe: toReadiness(listen, pod) }),
      livenessProbe: { ...isAlive, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6 },
    },
    comments: [
      {
        path: ['startupProbe'],
        text: 'vipnat writes until when it is alive, in seconds since boot. No port is used, because pods share the ports of the host.',
      },
      ...(listen === null ? [] : [readinessComment]),
      {
        path: ['livenessProbe'],
        text: 'It fails only if vipnat hangs. If the API or a tool fails, a restart would not help.',
      },
    ],
  };
}

function toReadiness(listen: Endpoint, pod: PodKind): object {
  const httpGet = { path: `/readyz?${podParameter}=${pod}`, host: chooseHost(listen), port: listen.port };
  return { httpGet, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3 };
}

const readinessComment: Comment = {
  path: ['readinessProbe'],
  text: 'The probe names its pod, because another agent answers while this pod waits.',
};

/** Where a server is asked that listens at an address: one that listens at every address, at the loopback one. */
export function chooseHost({ address }: Endpoint): string {
  if (address === '0.0.0.0') return '127.0.0.1';
  return address === '::' ? '::1' : address;
}
