import type { Family } from '../../../lib/net.ts';
import type { Command } from './command.ts';
import { join } from 'node:path';
import { masters, vips } from '../../../test/support/network/layout.ts';
import { vipnatCommand, runFolder } from './agent.ts';

/**
 * Prints the configuration, then becomes keepalived. Without the folder it would not track the file in it. The child of one that was
 * killed takes its leave for a second, and what it leaves in /run a boot would remove: either would end a new one at once.
 */
const script = `configuration=$1 folder=$2
shift 2
mkdir -p "$folder/keepalived"
"$@" >"$configuration"
for try in $(seq 50); do
  kill -0 "$(cat /run/keepalived-vrrp.pid 2>/dev/null)" 2>/dev/null || break
  sleep 0.1
done
rm -f /run/keepalived.pid /run/keepalived-vrrp.pid
exec keepalived --dont-fork --log-console --vrrp --use-file="$configuration" \\
  --pid=/run/keepalived.pid --vrrp_pid=/run/keepalived-vrrp.pid`;

/** A master's keepalived as `vipnat keepalived` would have it, which is given more arguments where it shall be otherwise. */
export function keepalivedCommand(
  master: string,
  folder: string,
  family: Family,
  more: readonly string[] = [],
): Command {
  const configuration = join(folder, master, 'keepalived.conf');
  const peers = masters.map(({ addresses }) => addresses[family]).join(',');
  const printing = vipnatCommand(
    ...['keepalived', '--vip', vips[family], '--run-dir', runFolder],
    ...['--peers', peers, ...more],
  );
  return { command: ['sh', '-ec', script, 'sh', configuration, runFolder, ...printing] };
}
