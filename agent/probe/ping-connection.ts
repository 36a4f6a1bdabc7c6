import { connect, type TLSSocket } from 'node:tls';
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type PingConnection, type PingListener } from './apiserver.ts';

/** Opens a connection for signs of life. No certificate is verified: nothing is sent but the smallest request. */
export function openPingConnection(endpoint: Endpoint, listener: PingListener): PingConnection {
  const { address, port } = endpoint;
  const socket = connect({ host: address, port, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] });
  socket.setNoDelay(true);
  listen(socket, listener);
  // RFC 9110, section 9.3.7: useful as a "ping". Go's net/http answers it before any handler: no etcd, no audit, no queue.
  const request = `OPTIONS * HTTP/1.1\r\nHost: ${formatEndpoint(endpoint)}\r\n\r\n`;
  return {
    get isConnected() {
      return !socket.connecting;
    },
    send: () => {
      socket.write(request);
    },
    close: () => {
      socket.removeAllListeners().on('error', () => undefined);
      socket.destroy();
    },
  };
}

function listen(socket: TLSSocket, { onHeard, onEnd }: PingListener): void {
  const hear = () => {
    onHeard(false);
  };
  socket
    // After the server's first message of the handshake: one that is slow takes several.
    .on('keylog', hear)
    .on('secureConnect', hear)
    .on('data', () => {
      onHeard(true);
    })
    .on('error', () => undefined)
    .on('close', onEnd);
}
