import { join } from 'node:path';

/** Where keepalived says what state its instances are in, in the folder of `--run-dir`: a named pipe that it makes itself. */
export function locateNotices(runDir: string): string {
  return join(runDir, 'keepalived', 'notify');
}

/** What an address's vrrp_instance is called. */
export function nameInstance(vip: string): string {
  return `vip-${vip}`;
}
