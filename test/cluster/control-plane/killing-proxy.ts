import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer, request, type Server } from 'node:https';
import { type AddressInfo } from 'node:net';
import { type SingleApiserver } from './single-apiserver.ts';

/** What writes of a step look like: those of the election and of events are none. */
const others = /\/leases|\/events/;

/** Passes requests on to an apiserver, and tells of each write that was done, before its answer gets through. */
export class KillingProxy {
  readonly #server: Server;
  readonly port: number;

  private constructor(server: Server) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
  }

  /** What `onWritten` says is gets no answer. */
  static async start(api: SingleApiserver, onWritten: (what: string) => boolean): Promise<KillingProxy> {
    const { certificate, key, authority } = api.pair;
    const ca = readFileSync(authority);
    const pass = (asked: IncomingMessage, response: ServerResponse) => {
      const { method = 'GET', url: path = '/', headers } = asked;
      const isStep = method !== 'GET' && !others.test(path);
      const options = { host: '127.0.0.1', port: api.port, method, path, headers, ca, agent: false } as const;
      const question = request(options, (answer) => {
        const { statusCode = 0 } = answer;
        if (isStep && statusCode < 300 && onWritten(`${method} ${path}`)) {
          response.destroy();
          return;
        }
        response.writeHead(statusCode, answer.headers);
        response.flushHeaders();
        answer.on('error', () => response.destroy());
        answer.pipe(response);
      });
      question.on('error', () => response.destroy());
      response.on('close', () => question.destroy());
      asked.pipe(question);
    };
    const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, pass);
    server.on('tlsClientError', () => undefined).on('clientError', () => undefined);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new KillingProxy(server);
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
