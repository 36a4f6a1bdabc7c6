/** The drivers that vipnat has. Each is loaded when a device asks for it. */
import { type CreateDriver } from './driver.ts';

/** By the names that `spec.driver` of a LoadBalancerDevice has. */
export const drivers: Readonly<Record<string, () => Promise<CreateDriver>>> = {};
