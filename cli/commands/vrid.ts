import { parseAddress } from '../../lib/address/address.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { computeVrid } from '../../lib/keepalived/vrid.ts';
import { toPrintableJson } from '../../lib/text/printable.ts';
import { quoteText } from '../../config/setting.ts';

/**
 * `vipnat vrid`: what to print for a VIP's text, its virtual_router_id. Throws CONFIG_INVALID for what is
 * no address, and for an address that leads to no valid one.
 */
export function vrid(text: string, json: boolean): string {
  const address = parseAddress(text);
  if (address !== null) {
    const found = computeVrid(address);
    return json ? `${toPrintableJson({ version: 1, vip: address.text, vrid: found }, 2)}\n` : `${found}\n`;
  }
  throw new VipnatError(
    'CONFIG_INVALID',
    `${quoteText(text)} is not an IP address. Example: vipnat vrid 10.0.0.50`,
  );
}
