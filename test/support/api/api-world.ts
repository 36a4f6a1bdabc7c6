import { type Certificates, createCertificates } from '../../../tools/lab/certificates/certificates.ts';
import { mkdtempSync, rmSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { beforeAll, afterAll } from '@jest/globals';
import { WaitedTooLong } from '../jest/waiting.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { KubeApi } from '../kube-api/kube-api.ts';
import { type ApiAccess, ApiRoute } from '../../../lib/kubernetes/route.ts';
import { vips } from '../network/layout.ts';
import { KubeStore, makeSlice, makeService } from '../kube-api/kube-store.ts';
import { FakeClock } from '../fakes/clock.ts';
import { type RecordingLogger, createRecordingLogger } from '../fakes/logger.ts';
import { WatchedApi, ApiLog } from '../../../agent/api.ts';
import { toEndpoint } from '../fakes/endpoints.ts';
import { formatEndpoint } from '../../../lib/net.ts';

interface CertificateFolder extends Certificates {
  readonly folder: string;
  remove(): void;
}

/** Makes the certificates of one control plane; two of them do not trust each other. */
async function makeCertificates(): Promise<CertificateFolder> {
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-api-'));
  const remove = () => {
    rmSync(folder, { recursive: true });
  };
  return { ...(await createCertificates(folder)), folder, remove };
}

/** The certificates of one control plane, made before all tests of a file and removed after them. */
export function useCertificates(): () => CertificateFolder {
  let made: CertificateFolder | null = null;
  beforeAll(async () => {
    made = await makeCertificates();
  });
  afterAll(() => made?.remove());
  return () => {
    if (made === null) throw new Error('the certificates are made before the tests');
    return made;
  };
}

/** The apiservers that the API lists at first; nobody connects to them. */
export const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];

export const watchPattern = /watch=true/;

/** Waits for something real, as bytes from a socket; the test's clock stands still meanwhile. */
export async function eventually(what: string, isSo: () => boolean): Promise<void> {
  for (let left = 12_000; !isSo(); left -= 1) {
    if (left === 0) throw new WaitedTooLong(`never came true: ${what}`);
    await sleep(10);
  }
}

/** Time for questions on their way, before a test's clock goes on: none is late but by that clock. */
export async function settle(servers: readonly KubeApi[]): Promise<void> {
  do await sleep(1);
  while (servers.some(({ isAboutToBeAsked }) => isAboutToBeAsked));
}

/** A kubeconfig that names the VIP, as kubeadm's does. */
export function accessByVip(authority: string): ApiAccess {
  return {
    origin: '/etc/kubernetes/admin.conf',
    host: vips.ipv4,
    port: 6443,
    serverName: vips.ipv4,
    isInCluster: false,
    tls: { ca: readFileSync(authority) },
    headers: { Authorization: 'Bearer a token' },
  };
}

/** A route with these credentials to apiservers at these places, and never by the virtual IP that they name. */
export function routeTo(authority: string, places: readonly string[]): ApiRoute {
  const vip = toEndpoint(`${vips.ipv4}:6443`);
  const route = new ApiRoute(() => Promise.resolve(accessByVip(authority)), [vip]);
  route.setServers({ endpoints: places.map(toEndpoint), localAddresses: new Set() });
  return route;
}

/** Apiservers on loopback addresses with the same port, and an agent's source that may ask them. */
export class ApiWorld {
  readonly store = new KubeStore();
  readonly servers: KubeApi[] = [];
  readonly clock = new FakeClock();
  readonly logger: RecordingLogger = createRecordingLogger();
  changes = 0;
  readonly api: WatchedApi;
  readonly #certificates: Certificates;
  readonly #access: Partial<ApiAccess>;

  constructor(certificates: Certificates, access: Partial<ApiAccess> = {}) {
    this.#certificates = certificates;
    this.store.put('EndpointSlice', makeSlice(three.map((text) => toEndpoint(text).address)));
    this.store.put('Service', makeService());
    this.#access = access;
    this.api = this.createApi(this.clock, this.logger, () => (this.changes += 1));
  }

  /** Another source that may ask them, as an agent with that clock and log has it. */
  createApi(clock: FakeClock, logger: RecordingLogger, onChange: () => void): WatchedApi {
    const access = { ...accessByVip(this.#certificates.authority), ...this.#access };
    return new WatchedApi({
      route: new ApiRoute(() => Promise.resolve(access), [toEndpoint(`${vips.ipv4}:6443`)]),
      clock,
      random: () => 0,
      report: new ApiLog(logger, clock),
      onChange,
    });
  }

  /** Starts another apiserver: the first at 127.0.0.1, the next at 127.0.0.2. */
  async startServer(certificates = this.#certificates): Promise<KubeApi> {
    const [first] = this.servers;
    const server = await KubeApi.start({
      pair: certificates.serving('m1'),
      store: this.store,
      host: `127.0.0.${this.servers.length + 1}`,
      ...(first === undefined ? {} : { port: first.port }),
    });
    this.servers.push(server);
    return server;
  }

  server(index: number): KubeApi {
    const server = this.servers[index];
    if (server === undefined) throw new Error('no server');
    return server;
  }

  /** Tells the source whom it may ask: all servers. */
  consult(): void {
    const endpoints = this.servers.map(({ port }, index) => toEndpoint(`127.0.0.${index + 1}:${port}`));
    void this.api.getView({ endpoints, localAddresses: new Set() });
  }

  /** Follows until that is said. */
  async follow(): Promise<void> {
    this.consult();
    await eventually('both kinds are watched', () => this.watches === 2);
    await this.clock.advance(1000);
    await eventually('it is said', () => this.linesOf('info').length > 0);
  }

  /** How many questions of a kind all servers have had. */
  count(pattern: RegExp): number {
    return this.servers.flatMap(({ questions }) => questions).filter((question) => pattern.test(question))
      .length;
  }

  get watches(): number {
    return this.servers.reduce((sum, { watches }) => sum + watches, 0);
  }

  /** What the API is taken to list in a family. */
  listed(family: 'ipv4' | 'ipv6' = 'ipv4'): string[] {
    return (this.api.view?.endpoints[family]?.value ?? []).map(formatEndpoint);
  }

  linesOf(level: string): string[] {
    return this.logger.lines.filter((line) => line.level === level).map(({ message }) => message);
  }

  /** Lets the source's pauses pass until something is so. */
  async pass(what: string, isSo: () => boolean, clock = this.clock): Promise<void> {
    for (let left = 3000; !isSo(); left -= 1) {
      if (left === 0) throw new WaitedTooLong(`never came true: ${what}`);
      await clock.advance(100);
      await settle(this.servers);
    }
  }

  async close(): Promise<void> {
    this.api.stop();
    await Promise.all(this.servers.map((server) => server.stop()));
  }
}
