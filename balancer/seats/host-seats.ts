import { Fifo } from '../../lib/files/fifo.ts';
import { listAddresses } from '../../lib/keepalived/find.ts';
import { findRunning, reloadRunning } from '../../lib/keepalived/running.ts';
import { createTrackFile } from '../../lib/keepalived/track-file.ts';
import { isSafePath } from '../../lib/keepalived/words.ts';
import { findAddressUsers } from '../../lib/kernel/host/address-use.ts';
import { readPlacedAddresses } from '../../lib/kernel/netlink/addresses.ts';
import { readOnLinkNetworks } from '../../lib/kernel/netlink/on-link-routes.ts';
import { testConfiguration } from '../../lib/kernel/tools/keepalived.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { readConfigurationFile } from './configuration-file.ts';
import { listAlone } from './place-address.ts';
import { locateSeatFiles } from '../../lib/keepalived/seat-files.ts';
import { Seats, type SeatsPorts } from './seats.ts';
import { listSubnets } from '../../lib/keepalived/subnets.ts';

/** What differs from process to process. */
export type HostSeatsOptions = Pick<SeatsPorts, 'clock' | 'node' | 'report' | 'onState' | 'onPlanned'> & {
  /** The folder that the balancer shares with its keepalived; whole path. */
  readonly runDir: string;
};

/**
 * The seats of this host, with its kernel, its network and the keepalived whose configuration is in `runDir`.
 * @throws VipnatError CONFIG_INVALID for a folder that cannot be named in keepalived.conf
 */
export function createHostSeats({ runDir, ...options }: HostSeatsOptions): Seats {
  if (!isSafePath(runDir)) {
    const example = 'Example: --run-dir /run/vipnat-lb';
    throw new VipnatError(
      'CONFIG_INVALID',
      `--run-dir ${runDir} cannot be written into keepalived.conf. ${example}`,
    );
  }
  const files = locateSeatFiles(runDir);
  return new Seats({
    ...options,
    files,
    testConfiguration,
    findRunning: () => findRunning(files),
    reload: reloadRunning,
    readAddresses: readPlacedAddresses,
    readOnLinkNetworks,
    findAddressUsers: async (questions) => {
      const addresses = await readPlacedAddresses();
      const configured = new Set(listAddresses((await readConfigurationFile(files)) ?? ''));
      const own = [...listSubnets(addresses), ...listAlone(addresses, configured)];
      return await findAddressUsers(questions, own, options.clock);
    },
    notices: new Fifo(files.notices),
    trackFile: createTrackFile(files.trackFile),
  });
}
