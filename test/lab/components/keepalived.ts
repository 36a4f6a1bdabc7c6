import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Family, parseAddress } from '../../../lib/address/address.ts';
import { computeVrid } from '../../../lib/naming/vrid.ts';
import { masters, vips } from '../../network/layout.ts';
import { type Command } from './command.ts';

/** The first master's; each one after it has ten less. */
const highestPriority = 110;

/** A master's keepalived: all start as BACKUP, and a master that comes back does not take the VIP again. */
export function keepalivedCommand(master: string, folder: string, family: Family): Command {
  const configuration = join(folder, master, 'keepalived.conf');
  writeFileSync(configuration, renderConfiguration(master, family));
  const files = ['--pid=/run/keepalived.pid', '--vrrp_pid=/run/keepalived-vrrp.pid'];
  return {
    command: [
      'keepalived',
      '--dont-fork',
      '--log-console',
      '--vrrp',
      `--use-file=${configuration}`,
      ...files,
    ],
  };
}

function renderConfiguration(master: string, family: Family): string {
  const vip = parseAddress(vips[family]);
  if (vip === null) throw new Error(`the layout's VIP is no address: ${vips[family]}`);
  const priority = highestPriority - 10 * masters.findIndex(({ name }) => name === master);
  return `global_defs {
  router_id ${master}
  vrrp_version ${family === 'ipv6' ? 3 : 2}
}
vrrp_instance VIP {
  state BACKUP
  nopreempt
  interface eth0
  virtual_router_id ${computeVrid(vip)}
  priority ${priority}
  advert_int 1
  virtual_ipaddress {
    ${vip.text}/${family === 'ipv6' ? 128 : 32}
  }
}
`;
}
