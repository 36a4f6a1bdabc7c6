import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { connect } from 'node:tls';

/**
 * A TLS ClientHello as Node sends it, in base64: whoever gets it answers with a ServerHello, as often as it is sent.
 * It offers HTTP/2, as Kubernetes' clients do.
 */
export async function recordHello(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect({ host: '127.0.0.1', port, ALPNProtocols: ['h2', 'http/1.1'] });
  client.on('error', () => undefined);
  const [socket] = (await once(server, 'connection')) as [Socket];
  const [bytes] = (await once(socket, 'data')) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return bytes.toString('base64');
}
