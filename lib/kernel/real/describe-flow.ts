import { formatEndpoint } from '../../address/endpoint.ts';
import { type BalancedFlow } from '../port.ts';

/** The text by which flows are compared: `tcp 10.0.9.10:80 10.244.1.2:8080`. */
export function describeFlow({ protocol, vip, backend }: BalancedFlow): string {
  return `${protocol} ${formatEndpoint(vip)} ${formatEndpoint(backend)}`;
}
