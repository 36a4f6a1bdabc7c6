import { type LocalAddress } from '../../lib/kernel/port.ts';

/** Whether other hosts can have the address too: nobody else is on a loopback or a dummy of kube-proxy's. */
export function isOnLink({ device }: Pick<LocalAddress, 'device'>): boolean {
  return device !== 'lo' && device !== 'kube-ipvs0';
}
