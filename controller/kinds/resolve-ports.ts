import { type Pod } from '../../lib/services/pods.ts';
import { type Service } from '../../lib/services/services.ts';

/** A port as an EndpointSlice has it. */
export interface SlicePort {
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
}

type Container = Pod['spec']['containers'][number];

/**
 * The ports of a Service on one pod, in the Service's order. A target port that is a name is the pod's own; ports that no container has
 * by that name are left out, as Kubernetes does (component-helpers, FindPort).
 */
export function resolvePorts({ spec }: Service, pod: Pod): SlicePort[] {
  return (spec.ports ?? []).flatMap(({ name, protocol, port, targetPort }) => {
    const target = targetPort ?? port;
    const found = typeof target === 'number' ? target : findNamed(pod, target, protocol);
    // 0 is how an absent one is written.
    return found === null ? [] : [{ name, protocol, port: found === 0 ? port : found }];
  });
}

function findNamed({ spec }: Pod, wanted: string, protocol: string): number | null {
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  const ports = [...spec.containers, ...sidecars].flatMap((container: Container) => container.ports ?? []);
  const found = ports.find((one) => one.name === wanted && (one.protocol ?? 'TCP') === protocol);
  return found?.containerPort ?? null;
}
