import { listNodes } from '../shared/small-cluster.ts';
import { outsider } from '../../../test/support/network/layout.ts';
import type { EndpointPort, BenchService } from '../shared/service-objects.ts';
import { createHash } from 'node:crypto';

/** The nodes that may hold addresses, the first one first. */
export const nodeNames = ['n1', 'n2', 'n3'] as const;

/** Those, the node with the pod, and the client. */
export const nodes = listNodes(nodeNames);
export const [worker] = listNodes([...nodeNames, 'worker']).slice(-1);
if (worker === undefined) throw new Error('no worker');
export const podNode = worker;
export const client = outsider;

/** Where the one pod is: on the network of a node that never fails. */
export const podPort: EndpointPort = { protocol: 'UDP', port: 7000, locate: () => podNode.name };
export const podAddress = podNode.addresses.ipv4;

/** What nodes have of the network that the addresses are of, beside their own: 10.78.0.0/16. */
export function toSecondAddress(node: { readonly addresses: { readonly ipv4: string } }): string {
  return node.addresses.ipv4.replace('10.77.', '10.78.');
}

/** Who asks: an address that no kernel has. */
export const askingAddress = '10.78.254.1';

/** An address of the network that the seat is in. */
export const seatNetwork = '10.78.1.1';

/** Where all addresses are, for whoever removes them. */
export const addressNetwork = '10.78.16.0/20';

/**
 * Services whose addresses MetalLB gives to the first node while all are well: by the least SHA-256 of node and address (MetalLB
 * 0.16.2, speaker/layer2_controller.go, sortL2Candidates). So one node has all of them, as vipnat's one seat has.
 */
export function listServices(count: number): BenchService[] {
  const addresses: string[] = [];
  for (let number = 0; addresses.length < count; number += 1) {
    const address = `10.78.${16 + (number >> 8)}.${number & 255}`;
    if (findFirst(address) === nodeNames[0]) addresses.push(address);
  }
  return addresses.map((vip, index) => ({ name: `web-${index}`, vip, endpoints: [podAddress] }));
}

/** The node that has an address by MetalLB's rule. */
export function findFirst(address: string): string {
  const order = nodeNames.map((name) => ({
    name,
    hash: createHash('sha256').update(`${name}#${address}`).digest(),
  }));
  return order.sort((one, other) => Buffer.compare(one.hash, other.hash))[0]?.name ?? '';
}
