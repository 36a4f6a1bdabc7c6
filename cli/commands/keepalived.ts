import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { readInterfaces } from '../../lib/kernel/host/interfaces.ts';
import { replaceFile } from '../../lib/files/replace-file.ts';
import { planVrrp } from '../generate/keepalived/plan-vrrp.ts';
import { notWritten, refuseForeignFile } from '../../lib/files/foreign-file.ts';
import { keepalivedMark, renderKeepalived } from '../generate/keepalived/render.ts';
import { type Vrrp, type VrrpInstance } from '../generate/keepalived/vrrp.ts';
import { type CommandContext, defineCommand } from '../command/command.ts';
import { keepalivedFlags, type KeepalivedOptions } from '../generate/keepalived/options.ts';

/** `vipnat keepalived`. */
export const keepalived = defineCommand({
  help: `
Examples:
  vipnat keepalived --vip 10.0.0.50
  vipnat keepalived --vip 10.0.0.50 --peers 10.0.0.11,10.0.0.12,10.0.0.13
  vipnat keepalived --vip 10.0.0.50 --interface eth0 --advert 300ms

The configuration goes to standard output, a line for each virtual IP to standard
error. Run it on each master with the same options. Only --output writes a file.
Exit status: 0 printed, 78 bad configuration, or a value that this host does not show.`,
  flags: keepalivedFlags,
  heeds: ['vip', 'endpoints', 'runDir', 'logLevel'],
  check: ({ noVip }) => noVip(),
  run: printOrWrite,
});

/** Prints or writes keepalived.conf for this node, and tells a person how it was filled in. */
async function printOrWrite({
  config,
  options,
  stdout,
  stderr,
}: CommandContext<KeepalivedOptions>): Promise<number> {
  const vrrp = planVrrp({ config, options, hostname: hostname(), interfaces: readInterfaces() });
  const text = renderKeepalived(vrrp);
  if (options.output === null) stdout(text);
  else await write(options.output, text);
  for (const instance of vrrp.instances) stderr(`${describeInstance(instance, vrrp)}\n`);
  // keepalived 2.2.7 drops a track file whose folder is not there when it starts.
  const folder = dirname(vrrp.trackFile);
  if (options.output === null || dirname(options.output) !== folder) {
    stderr(`keepalived needs the folder ${folder} when it starts: mkdir -p ${folder}\n`);
  }
  return exitStatuses.done;
}

/** Whole or not at all. keepalived takes no file that others may write. The configuration of other virtual IPs stays. */
async function write(file: string, text: string): Promise<void> {
  await refuseForeignFile(file, keepalivedMark, 'vipnat keepalived');
  await replaceFile(file, text).catch((error: unknown) => {
    throw notWritten(file, error);
  });
}

function describeInstance({ vip, device, vrid, unicast }: VrrpInstance, { priority }: Vrrp): string {
  const adverts =
    unicast === null ? 'multicast' : `unicast from ${unicast.source} to ${unicast.peers.join(', ')}`;
  return `${vip.text} on ${device}: virtual_router_id ${vrid}, priority ${priority}, ${adverts}`;
}
