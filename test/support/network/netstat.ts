/** A counter of TCP, out of what /proc/net/netstat says of a network namespace: a line of names, and one of values. */
export function pickCounter(netstat: string, name: string): number {
  const [names = [], values = []] = netstat
    .split('\n')
    .filter((line) => line.startsWith('TcpExt:'))
    .map((line) => line.split(' '));
  return Number(values[names.indexOf(name)]);
}
