import { hostname } from 'node:os';
import { type Config } from './config.ts';

/** The name of this host's Node in Kubernetes: as it is given, else the host's, as the kubelet names itself by default. */
export function nameNode({ nodeName }: Pick<Config, 'nodeName'>): string {
  return nodeName ?? hostname().trim().toLowerCase();
}
