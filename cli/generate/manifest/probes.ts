import { type Endpoint } from '../../../lib/address/endpoint.ts';
import { heartbeatProbe } from '../../../lib/telemetry/heartbeat.ts';
import { type Part } from './yaml.ts';

/** How the kubelet asks whether a container is ready, and what people are told of it. */
export interface Readiness {
  readonly probe: object;
  readonly purpose: string;
}

/**
 * The probes of vipnat's container: whether it is alive is asked by a program in the container, and whether it is ready over HTTP,
 * unless nothing is served. Only a loop that hangs for minutes is a reason to start anew: what it last wrote stays either
 * way. `reason` says why no port is asked whether it is alive.
 */
export function toProbes(readiness: Readiness | null, reason = sharedPorts): Part {
  const isAlive = { exec: { command: [...heartbeatProbe] } };
  return {
    value: {
      startupProbe: { ...isAlive, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 30 },
      ...(readiness === null ? {} : { readinessProbe: readiness.probe }),
      livenessProbe: { ...isAlive, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6 },
    },
    comments: [
      {
        path: ['startupProbe'],
        text: `vipnat writes until when it is alive, in seconds since boot. No port is used, because ${reason}.`,
      },
      ...(readiness === null ? [] : [{ path: ['readinessProbe'], text: readiness.purpose }]),
      {
        path: ['livenessProbe'],
        text: 'It fails only if vipnat hangs. If the API or a tool fails, a restart would not help.',
      },
    ],
  };
}

const sharedPorts = 'pods share the ports of the host';

/** Asks a server in the network of the node: one that listens at every address, at the loopback one. */
export function askOnHost({ address, port }: Endpoint, path: string): object {
  const host = loopbacks.get(address) ?? address;
  return { httpGet: { path, host, port }, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3 };
}

const loopbacks: ReadonlyMap<string, string> = new Map([
  ['0.0.0.0', '127.0.0.1'],
  ['::', '::1'],
]);
