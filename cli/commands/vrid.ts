import { parseAddress } from '../../lib/address/address.ts';
import { computeVrid } from '../../lib/keepalived/vrid.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { toPrintableJson } from '../../lib/text/printable.ts';
import { quoteText } from '../../config/setting.ts';
import { definePlainCommand } from '../command/command.ts';
import { json } from '../command/shared-flags.ts';

/**
 * `vipnat vrid`: prints the virtual_router_id of a VIP. Throws CONFIG_INVALID for what is no address, and for an address that
 * leads to no valid one.
 */
export const vrid = definePlainCommand({
  usage: 'ADDR [--json]',
  help: `
Examples:
  vipnat vrid 10.0.0.50              prints 51: the last byte plus 1
  vipnat vrid fd00::50               prints 81: 0x50 plus 1

Exit status: 0 printed, 78 not an address, or an address without a virtual_router_id.`,
  flags: { json },
  argument: { name: 'vip', missing: 'vrid needs the virtual IP. Example: vipnat vrid 10.0.0.50' },
  run: ({ options, words: [text = ''], stdout }) => {
    stdout(format(text, options.json));
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
  return isJson ? `${toPrintableJson({ version: 1, vip: address.text, vrid: found }, 2)}\n` : `${found}\n`;
}
