import { WaitedTooLong } from '../../support/jest/waiting.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { namespace, type ServicesWorld } from './services-world.ts';
import { type Process, type SingleApiserver } from './single-apiserver.ts';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer, request, type Server } from 'node:https';
import { type AddressInfo } from 'node:net';

/** What writes of a step look like: those of the election and of events are none. */
const others = /\/leases|\/events/;

/** Passes requests on to an apiserver, and tells of each write that was done, before its answer gets through. */
class KillingProxy {
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

const lease = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/vipnat-controller`;

/** Controllers of which each is killed (SIGKILL) once the apiserver has done its first write, before the answer arrives. */
export class ShortLives {
  /** The last write of each life: `METHOD PATH`. */
  readonly writes: string[] = [];
  readonly #world: ServicesWorld;
  #proxy: KillingProxy | null = null;
  #current: Process | null = null;
  #isStopped = false;
  #running: Promise<void> = Promise.resolve();

  constructor(world: ServicesWorld) {
    this.#world = world;
  }

  /** Starts one life after the other, until `stop`. */
  async start(): Promise<void> {
    this.#proxy = await KillingProxy.start(this.#world.api, (what) => {
      this.writes.push(what);
      return this.#current?.kill('SIGKILL') === true;
    });
    const kubeconfig = this.#world.api.writeKubeconfig('killed', this.#world.token, this.#proxy.port);
    this.#running = this.#live(kubeconfig);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#current?.kill('SIGKILL');
    await this.#running;
    await this.#proxy?.stop();
  }

  /** Waits until something is so, with the lives that this takes. */
  async until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    await waitFor(isSo, limitMs).catch(() => {
      throw new WaitedTooLong(
        `never came true: ${what}\n${this.writes.join('\n')}\n${this.#world.readLogs()}`,
      );
    });
  }

  async #live(kubeconfig: string): Promise<void> {
    while (!this.#isStopped) {
      this.#current = this.#world.startController('killed', { kubeconfig });
      await this.#current;
      // The next one need not wait until the Lease is over: nothing is gained by waiting 15 s each time.
      const object = { spec: { holderIdentity: '' } };
      await this.#world.api.ask({ method: 'PATCH', path: lease, object });
    }
  }
}

/** Some ten lives, on a machine with more to do. */
const limitMs = 120_000;
