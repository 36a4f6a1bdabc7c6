import { defineCommand, type CommandContext, definePlainCommand, json } from '../command.ts';
import {
  keepalivedFlags,
  type KeepalivedOptions,
  planVrrp,
  renderKeepalived,
  keepalivedMark,
  type VipInstance,
  type Vrrp,
} from '../keepalived.ts';
import { hostname } from 'node:os';
import { readInterfaces } from '../../lib/kernel/host.ts';
import { dirname } from 'node:path';
import { exitStatuses, formatDocument, quoteText } from '../../lib/text.ts';
import { refuseForeignFile, replaceFile, notWritten } from '../../lib/files.ts';
import { parseAddress } from '../../lib/net.ts';
import { VipnatError } from '../../lib/errors.ts';
import { computeVrid } from '../../lib/keepalived/read.ts';

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
  configOptions: ['vip', 'endpoints', 'runDir', 'logLevel'],
  check: ({ noVip, unfitVips }) => [...noVip(), ...unfitVips()],
  run: printOrWrite,
});

async function printOrWrite(context: CommandContext<KeepalivedOptions>): Promise<number> {
  const { config, options, stdout, stderr } = context;
  const vrrp = planVrrp({ config, options, hostname: hostname(), interfaces: readInterfaces() });
  const text = renderKeepalived(vrrp);
  if (options.output === null) stdout(text);
  else await write(options.output, text);
  for (const instance of vrrp.instances) stderr(`${describeInstance(instance, vrrp)}\n`);
  // keepalived 2.2.7 drops a track file whose folder is not there when it starts.
  const folder = dirname(vrrp.trackFile);
  if (options.output === null || dirname(options.output) !== folder)
    stderr(`keepalived needs the folder ${folder} when it starts: mkdir -p ${folder}\n`);
  return exitStatuses.done;
}

/** Whole or not at all. keepalived takes no file that others may write. The configuration of other virtual IPs stays. */
async function write(file: string, text: string): Promise<void> {
  await refuseForeignFile(file, keepalivedMark, 'vipnat keepalived');
  await replaceFile(file, text).catch((error: unknown) => {
    throw notWritten(file, error);
  });
}

function describeInstance({ vip, device, vrid, unicast }: VipInstance, { priority }: Vrrp): string {
  const adverts =
    unicast === null ? 'multicast' : `unicast from ${unicast.source} to ${unicast.peers.join(', ')}`;
  return `${vip.text} on ${device}: virtual_router_id ${vrid}, priority ${priority}, ${adverts}`;
}

/** `vipnat vrid`. */
export const vrid = definePlainCommand({
  usage: 'ADDR [--json]',
  help: `
Examples:
  vipnat vrid 10.0.0.50              prints 51: the last byte plus 1
  vipnat vrid fd00::50               prints 81: 0x50 plus 1

Exit status: 0 printed, 78 not an address, or an address without a virtual_router_id.`,
  flags: { json },
  words: {
    read: ([address], { report }) => {
      if (address === undefined) report('vrid needs the virtual IP. Example: vipnat vrid 10.0.0.50');
      return { address: address ?? '' };
    },
  },
  run: ({ options: { address, json: isJson }, stdout }) => {
    stdout(format(address, isJson));
    return Promise.resolve(exitStatuses.done);
  },
});

function format(text: string, isJson: boolean): string {
  const address = parseAddress(text);
  if (address === null) {
    throw new VipnatError(
      'CONFIG_INVALID',
      `${quoteText(text)} is not an IP address. Example: vipnat vrid 10.0.0.50`,
    );
  }
  const found = computeVrid(address);
  return isJson ? formatDocument({ version: 1, vip: address.text, vrid: found }) : `${found}\n`;
}
