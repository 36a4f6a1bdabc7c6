import type { NodeLab } from '../nodes/node-lab.ts';
import { runShell } from '../machines/machine.ts';
import { outsider } from '../../../test/support/network/layout.ts';
import { nodes } from '../nodes/hosts.ts';

/** The network namespace of the host, on the client's machine. */
const name = 'far';

/** The network between the host and the client, which is its router. */
const network = { ipv4: '192.0.2', ipv6: '2001:db8:2:' };

/**
 * A host that is not on the nodes' network, as the clients of a load balancer: the client routes for it. The specs take a client
 * on the nodes' own network for a node that hides the client's address. Answers how to run a command there.
 */
export async function addHostBehindRouter(lab: NodeLab): Promise<(command: readonly string[]) => string[]> {
  await runShell(lab.machine(outsider.name), renderRouter());
  for (const { name: node } of nodes) await runShell(lab.machine(node), renderRoutes());
  return (command) => ['ip', 'netns', 'exec', name, ...command];
}

function renderRouter(): string {
  return `ip netns list | grep -qw ${name} && exit 0
    ip netns add ${name}
    ip link add ${name} type veth peer name eth0 netns ${name}
    echo 0 | tee /proc/sys/net/ipv6/conf/${name}/accept_dad > /dev/null
    ip addr add ${network.ipv4}.1/24 dev ${name}
    ip addr add ${network.ipv6}:1/64 dev ${name} nodad
    ip link set ${name} up
    inside() { ip netns exec ${name} "$@"; }
    inside ip link set lo up
    inside ip addr add ${network.ipv4}.2/24 dev eth0
    inside ip addr add ${network.ipv6}:2/64 dev eth0 nodad
    inside ip link set eth0 up
    inside ip route add default via ${network.ipv4}.1
    inside ip -6 route add default via ${network.ipv6}:1`;
}

/** A node that loses its power needs them anew. */
function renderRoutes(): string {
  const { ipv4, ipv6 } = outsider.addresses;
  return `ip route replace ${network.ipv4}.0/24 via ${ipv4}
    ip -6 route replace ${network.ipv6}:/64 via ${ipv6}`;
}
