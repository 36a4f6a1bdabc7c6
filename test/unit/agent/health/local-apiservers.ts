import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer as createHttpsServer, type Server } from 'node:https';
import { type AddressInfo, type Server as TcpServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { type Endpoint } from '../../../../lib/address/endpoint.ts';

/** A certificate of its own, and the key of it. */
export interface Identity {
  readonly key: string;
  readonly certificate: string;
}

/** Makes an identity in a folder, as files of this name. It does not list any address, as an apiserver behind a load balancer of its own. */
export function makeIdentity(folder: string, name: string): Identity {
  const [key, certificate] = [join(folder, `${name}.key`), join(folder, `${name}.crt`)];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-batch'],
      ...['-subj', '/CN=kubernetes', '-days', '2', '-out', certificate, '-keyout', key],
    ],
    { stdio: 'ignore' },
  );
  return { key, certificate };
}

/** Small apiservers on this host, for one test. */
export class LocalApiservers {
  readonly #endings: (() => void)[] = [];

  /** One that answers /readyz with a status and a body. */
  async answer({ key, certificate }: Identity, status: number, body = 'ok'): Promise<Answering> {
    const answering = { connections: 0, questions: 0 };
    const server = createHttpsServer(
      { key: readFileSync(key), cert: readFileSync(certificate) },
      (_request, response) => {
        answering.questions += 1;
        response.writeHead(status).end(body);
      },
    );
    server.on('connection', () => (answering.connections += 1));
    return Object.assign(answering, { server, endpoint: await this.listen(server) });
  }

  /** Has a server listen on a free port. */
  async listen(server: TcpServer): Promise<Endpoint> {
    const sockets = new Set<Socket>();
    server.on('connection', (socket: Socket) => sockets.add(socket));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    this.atEnd(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    return { family: 'ipv4', address: '127.0.0.1', port: (server.address() as AddressInfo).port };
  }

  /** Has something done at the end too. */
  atEnd(end: () => void): void {
    this.#endings.push(end);
  }

  /** The end of all. */
  close(): void {
    for (const end of this.#endings.splice(0)) end();
  }
}

/** A small apiserver, and what came to it. */
export interface Answering {
  readonly server: Server;
  readonly endpoint: Endpoint;
  /** How many connections were made. */
  connections: number;
  /** How many requests came. */
  questions: number;
}
