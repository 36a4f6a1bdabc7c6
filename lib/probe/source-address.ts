import { createSocket } from 'node:dgram';
import { type Family } from '../address/address.ts';

/** Nobody has these (RFC 5737, RFC 3849). Nothing is sent there. */
const elsewhere: Readonly<Record<Family, string>> = { ipv4: '192.0.2.1', ipv6: '2001:db8::1' };

/** Any port will do. */
const discardPort = 9;

/**
 * The address from which this host sends to where its default route leads; null without such a route. The kernel chooses it, and nothing is
 * sent. Never rejects.
 */
export function findSourceAddress(family: Family): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = createSocket(family === 'ipv6' ? 'udp6' : 'udp4');
    const end = (address: string | null) => {
      socket.close();
      resolve(address);
    };
    socket.on('error', () => {
      end(null);
    });
    socket.connect(discardPort, elsewhere[family], () => {
      end(socket.address().address);
    });
  });
}
