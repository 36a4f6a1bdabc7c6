/** What says how a host's network is. A tool that is not there is left out. */
const commands = [
  ...['nft list ruleset', 'iptables-save -c', 'ip6tables-save -c'],
  ...['iptables-legacy-save -c', 'ip6tables-legacy-save -c'],
  ...['ip addr', 'ip route', 'ip -6 route', 'ss -lnt', 'ss -tinp', 'conntrack -S'],
  'nstat -asz TcpRetransSegs TcpExtListenDrops TcpExtTCPSynRetrans TcpExtTCPTimeouts',
];

/** A script of sh that prints all that says how the network is where it runs. */
const script = `PATH="$PATH:/usr/sbin:/sbin"
for command in ${commands.map((command) => `'${command}'`).join(' ')}; do
  command -v "\${command%% *}" >/dev/null || continue
  echo "# $command"
  $command 2>&1
  echo
done`;

/** Prints it all, or as much of it as comes in time: less than what a failing test waits for. */
export const networkCommand: readonly string[] = ['timeout', '--kill-after=1', '8', 'sh', '-c', script];
