import { type Command } from 'commander';
import { collect } from './shared-options.ts';

/** The switches of `vipnat keepalived`, which its manifest takes too. */
export function addKeepalivedSwitches(command: Command): Command {
  return command
    .option('--interface <value>', 'the interface of the virtual IPs, if vipnat cannot detect it')
    .option(
      '--peers <value>',
      "the masters' addresses, for unicast; this node may be one (default: --endpoints, or multicast)",
      collect,
    )
    .option('--vrid <value>', 'virtual_router_id, one for each VIP (default: the last byte plus 1)', collect)
    .option('--priority <value>', "from 1 to 254 (default: by this node's place among the masters)")
    .option('--advert <value>', 'the time between two adverts, such as 300ms (default: 1s)');
}
