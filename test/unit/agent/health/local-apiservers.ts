import { join } from 'node:path';
import { execFileSync } from 'node:child_process';
import { writeFileSync, readFileSync } from 'node:fs';
import { createServer as createHttpsServer, type Server } from 'node:https';
import type { Server as TcpServer, Socket, AddressInfo } from 'node:net';
import type { Endpoint } from '../../../../lib/net.ts';

/** A certificate of its own, and the key of it. */
export interface Identity {
  readonly key: string;
  readonly certificate: string;
}

/** Makes an identity in a folder, as files of this name. It does not list any address, as an apiserver behind a load balancer of its own. */
export function makeIdentity(folder: string, name: string, subject = 'kubernetes'): Identity {
  const [key, certificate] = [join(folder, `${name}.key`), join(folder, `${name}.crt`)];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-batch'],
      ...['-subj', `/CN=${subject}`, '-days', '2', '-out', certificate, '-keyout', key],
    ],
    { stdio: 'ignore' },
  );
  return { key, certificate };
}

/** Makes an identity that counts from a time on: a host whose clock is late takes a good certificate for one of the future. */
export function makeFutureIdentity(folder: string, name: string, from: Date): Identity {
  const file = (suffix: string) => join(folder, `${name}.${suffix}`);
  writeFileSync(file('index'), '');
  const entries = {
    ca: ['default_ca = authority'],
    authority: [
      ...[`database = ${file('index')}`, `new_certs_dir = ${folder}`, 'rand_serial = yes', 'policy = any'],
      ...['default_md = sha256', 'x509_extensions = extensions'],
    ],
    any: ['commonName = supplied'],
    extensions: ['basicConstraints = CA:TRUE'],
  };
  writeFileSync(
    file('cnf'),
    Object.entries(entries)
      .flatMap(([section, lines]) => [`[${section}]`, ...lines])
      .join('\n'),
  );
  const { key } = makeIdentity(folder, name);
  const run = (...words: string[]) => execFileSync('openssl', words, { stdio: 'ignore' });
  run('req', '-new', '-key', key, '-subj', '/CN=kubernetes', '-out', file('csr'));
  const start = `${from.toISOString().slice(0, 19).replaceAll(/[-T:]/g, '')}Z`;
  run(
    ...['ca', '-batch', '-notext', '-selfsign', '-config', file('cnf'), '-keyfile', key],
    ...['-startdate', start, '-days', '2', '-in', file('csr'), '-out', file('crt')],
  );
  return { key, certificate: file('crt') };
}

/** Small apiservers on this host, for one test. */
export class LocalApiservers {
  readonly #endings: (() => void)[] = [];

  async answer({ key, certificate }: Identity, status: number, body = 'ok'): Promise<Answering> {
    const answering = { connections: 0, questions: 0 };
    const server = createHttpsServer(
      { key: readFileSync(key), cert: readFileSync(certificate) },
      ({ method }, response) => {
        // Pings are OPTIONS.
        if (method === 'GET') answering.questions += 1;
        response.writeHead(status).end(body);
      },
    );
    server.on('connection', () => (answering.connections += 1));
    return Object.assign(answering, { server, endpoint: await this.listen(server) });
  }

  /** Ends one, and starts it anew with an identity: all of its connections end. */
  async restart(answering: Answering, { key, certificate }: Identity): Promise<void> {
    const { server, endpoint } = answering;
    const isClosed = new Promise<void>((resolve) =>
      server.close(() => {
        resolve();
      }),
    );
    server.closeAllConnections();
    await isClosed;
    server.setSecureContext({ key: readFileSync(key), cert: readFileSync(certificate) });
    await new Promise<void>((resolve) => server.listen(endpoint.port, '127.0.0.1', resolve));
  }

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

  close(): void {
    for (const end of this.#endings.splice(0)) end();
  }
}

/** A small apiserver, and what came to it. */
export interface Answering {
  readonly server: Server;
  readonly endpoint: Endpoint;
  connections: number;
  /** How many questions came. */
  questions: number;
}
