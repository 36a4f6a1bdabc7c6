import { type Host, hosts, masters, worker, outsider, podAddresses } from './layout.ts';
import { families, type Family } from '../../../lib/net.ts';

/**
 * Shell scripts that wire up the layout's machines: one bridge, a cable from it to every host, and pods behind
 * hosts. They say what is where, not how a machine is made.
 */

/** Where a script's other end is: a network namespace's name or the pid of a process in it, as `ip link` takes it. */
type NetnsReference = string | number;

/** On the switch: the bridge, with a cable to every host; those of the layout by default. */
export function renderSwitch(
  locate: (host: string) => NetnsReference,
  plugged: readonly Host[] = hosts,
): string {
  const cables = plugged.map(({ name }) => renderCable(name, locate(name)));
  return `ip link add bridge type bridge
    ip addr add 10.77.0.1/24 dev bridge
    ip addr add fd77::1/64 dev bridge nodad
    ip link set bridge up
    ${cables.join('\n')}`;
}

/** On the switch: the cable to a host, whose end is called eth0 there. */
export function renderCable(host: string, netns: NetnsReference): string {
  return `ip link add ${host} type veth peer name eth0 netns ${netns}
    ip link set ${host} master bridge up`;
}

/** On a host: its addresses, forwarding, and the ways to pods elsewhere, as a CNI in routing mode sets them. */
export function renderHost(host: Host, nodes: readonly Host[] = [...masters, worker]): string {
  const podRoutes = nodes
    .filter(({ name, pods }) => pods !== undefined && name !== host.name)
    .flatMap((other) =>
      families.map((family) => `ip route add ${podNetwork(other, family)} via ${other.addresses[family]}`),
    );
  return `ip link set lo up
    ${skipDad('eth0')}
    ip link set eth0 up
    ip addr add ${host.addresses.ipv4}/24 dev eth0
    ip addr add ${host.addresses.ipv6}/64 dev eth0 nodad
    ip route add default via 10.77.0.1
    ip -6 route add default via fd77::1
    echo 1 > /proc/sys/net/ipv4/ip_forward
    echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
    ${host === outsider ? '' : podRoutes.join('\n')}`;
}

/** On a host: the cable to its pod. */
export function renderPodCable(host: Host, pod: NetnsReference): string {
  return `ip link add pod0 type veth peer name eth0 netns ${pod}
    ${skipDad('pod0')}
    ip addr add ${podAddresses(host, 'ipv4').host}/24 dev pod0
    ip addr add ${podAddresses(host, 'ipv6').host}/64 dev pod0 nodad
    ip link set pod0 up`;
}

/** In a host's pod: its end of the cable. */
export function renderPod(host: Host): string {
  const [ipv4, ipv6] = [podAddresses(host, 'ipv4'), podAddresses(host, 'ipv6')];
  return `ip link set lo up
    ${skipDad('eth0')}
    ip link set eth0 up
    ip addr add ${ipv4.pod}/24 dev eth0
    ip addr add ${ipv6.pod}/64 dev eth0 nodad
    ip route add default via ${ipv4.host}
    ip -6 route add default via ${ipv6.host}`;
}

/**
 * Machines that have been up for long are done with duplicate address detection (RFC 4862). Until it ends, 1 to 2 s
 * after the link is up, a router has no link-local address to ask for a neighbour from, and forwards nothing.
 */
function skipDad(link: string): string {
  const folder = '/proc/sys/net/ipv6/conf';
  return `echo 0 | tee ${folder}/all/accept_dad ${folder}/${link}/accept_dad > /dev/null`;
}

function podNetwork({ pods }: Host, family: Family): string {
  return family === 'ipv4' ? `${pods?.ipv4 ?? ''}.0/24` : `${pods?.ipv6 ?? ''}:/64`;
}
