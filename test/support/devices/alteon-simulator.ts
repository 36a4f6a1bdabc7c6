/**
 * A pair of Radware's Alteon, or one unit, as HTTPS servers of this host: written from the MIB and from what clients of Alteon say of it, as nobody
 * has a real one here. Faults can be switched on at any time, also from `onCall`, which is told of each request before it is answered.
 */
import type { KeyPair } from '../../../lib/http/pages.ts';
import { type AlteonFaults, type UnitPace, AlteonUnitSimulation, type UnitAnswer } from './alteon-unit.ts';
import { type Server, createServer } from 'node:https';
import { makePair } from '../../../controller/webhook/certificate.ts';
import type { AddressInfo } from 'node:net';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type AlteonRow, printDifference, readTable } from './alteon-configuration.ts';

interface AlteonCall {
  readonly unit: number;
  readonly method: string;
  readonly path: string;
}

/** Where connections to one address and port go. */
interface Served {
  /** `tcp 10.0.0.5:443`. */
  readonly listener: string;
  /** `10.1.2.3:8080=1`: the member and its weight; 0 for one that drains. */
  readonly members: readonly string[];
}

export interface AlteonSimulatorOptions {
  readonly units?: 1 | 2;
  /** Some versions print words, others numbers. */
  readonly roleAs?: 'text' | 'number';
}

const credentials = { username: 'vipnat', password: 'correct horse' };

let pair: Promise<KeyPair> | null = null;

export class AlteonSimulator {
  readonly credentials = credentials;
  readonly faults: AlteonFaults = {
    ...{ unauthorized: 0, notAcceptable: 0, refusedWrites: 0, emptyTables: 0, bodiless: 0, lostAnswers: 0 },
    ...{ applyProblem: null, saveProblem: null, syncProblem: null },
  };
  readonly pace: UnitPace = { applyRequests: 2, saveRequests: 2 };
  readonly units: readonly AlteonUnitSimulation[];
  readonly calls: AlteonCall[] = [];
  active = new Set([0]);
  /** These end each connection without an answer. */
  readonly unresponsive = new Set<number>();
  /** Requests from now on that get no answer. */
  held = 0;
  onHeld: () => void = () => undefined;
  onCall: (call: AlteonCall, count: number) => void = () => undefined;
  readonly #options: Required<AlteonSimulatorOptions>;
  readonly #servers: Server[] = [];
  #sync = { status: 0, remaining: 0, from: 0 };
  #ca = '';

  constructor({ units = 2, roleAs = 'text' }: AlteonSimulatorOptions = {}) {
    this.#options = { units, roleAs };
    this.units = Array.from({ length: units }, () => new AlteonUnitSimulation(this.faults, this.pace));
  }

  async start(): Promise<this> {
    pair ??= makePair('localhost', new Date());
    const { certificate, key } = await pair;
    this.#ca = certificate;
    for (const at of this.units.keys()) {
      const server = createServer({ cert: certificate, key }, (request, response) => {
        void this.#receive(at, request, response);
      });
      server.on('tlsClientError', () => undefined);
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      this.#servers.push(server);
    }
    return this;
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.#servers.map(async (server) => {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      }),
    );
  }

  get urls(): readonly string[] {
    return this.#servers.map((server) => `https://localhost:${(server.address() as AddressInfo).port}`);
  }

  get ca(): string {
    return this.#ca;
  }

  switchRoles(): void {
    this.active = new Set([...this.units.keys()].filter((at) => !this.active.has(at)));
  }

  get activeUnit(): AlteonUnitSimulation {
    return this.#unit([...this.active][0] ?? 0);
  }

  get writes(): readonly AlteonCall[] {
    return this.calls.filter(({ method }) => method !== 'GET');
  }

  /** What clients of a unit get, the active one where none is named. */
  readServed(unit = this.activeUnit): readonly Served[] {
    return readServed(unit);
  }

  async #receive(at: number, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request as AsyncIterable<Buffer>) parts.push(part);
    const call = { unit: at, method: request.method ?? '', path: decodeURIComponent(request.url ?? '') };
    this.calls.push(call);
    this.onCall(call, this.calls.length);
    if (this.unresponsive.has(at)) {
      request.socket.destroy();
      return;
    }
    if (this.held > 0) {
      this.held -= 1;
      this.onHeld();
      return;
    }
    const { status, body } = this.#answer(at, request, Buffer.concat(parts).toString());
    if (this.faults.lostAnswers > 0) {
      this.faults.lostAnswers -= 1;
      request.socket.destroy();
      return;
    }
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    if (this.faults.bodiless > 0 && call.method !== 'GET') {
      this.faults.bodiless -= 1;
      response.writeHead(status, { 'content-length': Buffer.byteLength(text) });
      response.flushHeaders();
      request.socket.end();
      return;
    }
    response.writeHead(status, { 'content-type': 'application/json' }).end(text);
  }

  #answer(at: number, request: IncomingMessage, text: string): UnitAnswer {
    const { username, password } = credentials;
    const basic = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
    if (this.faults.unauthorized > 0 || request.headers.authorization !== basic) {
      this.faults.unauthorized = Math.max(0, this.faults.unauthorized - 1);
      return { status: 401, body: '' };
    }
    if (this.faults.notAcceptable > 0) {
      this.faults.notAcceptable -= 1;
      return { status: 406, body: '' };
    }
    for (const unit of this.units) unit.tick();
    this.#tickSync();
    const url = new URL(request.url ?? '', 'https://unit');
    const body = (text === '' ? {} : JSON.parse(text)) as AlteonRow;
    return this.#route(at, request.method ?? '', url, body);
  }

  #route(at: number, method: string, url: URL, body: AlteonRow): UnitAnswer {
    const unit = this.#unit(at);
    const [, root, name = '', ...key] = url.pathname.split('/').map(decodeURIComponent);
    if (root !== 'config') return { status: 404, body: '' };
    const action = url.searchParams.get('action');
    if (action !== null && this.faults.refusedWrites > 0) return unit.refuse();
    if (action !== null) return action === 'sync' ? this.#startSync(at) : unit.act(action);
    if (method !== 'GET') return unit.write(method, name, key, body);
    const nameToAnswer: Readonly<Record<string, () => unknown>> = {
      '': () => this.#readProperties(at, url.searchParams.get('prop') ?? ''),
      haSwitchInfoState: () => ({ [name]: this.#readRole(at) }),
      vrrpInfoHAState: () => ({ [name]: this.#readRole(at) }),
      getdiff: () => unit.readText(name),
      getdiffflash: () => unit.readText(name),
    };
    const read = nameToAnswer[name];
    return read === undefined ? unit.readTable(name, key, url.searchParams) : { status: 200, body: read() };
  }

  #readRole(at: number): string | number {
    const isActive = this.active.has(at);
    if (this.#options.roleAs === 'number') return isActive ? 2 : 3;
    return isActive ? 'master' : 'backup';
  }

  #readProperties(at: number, asked: string): Record<string, unknown> {
    const properties: Record<string, unknown> = {
      ...this.#unit(at).readProperties(),
      agSyncStatus: this.#sync.status,
      agSyncNeeded: this.#isInSync() ? 2 : 1,
      agLastSyncErrorReason:
        this.#sync.status === 3 ? (this.faults.syncProblem ?? 'peer does not answer') : '',
    };
    return Object.fromEntries(asked.split(',').map((property) => [property, properties[property]]));
  }

  #isInSync(): boolean {
    const [one, other] = this.units;
    return one === undefined || other === undefined || printDifference(one.running, other.running) === '';
  }

  #startSync(at: number): UnitAnswer {
    if (this.units.length === 1)
      return { status: 200, body: { status: 'err', message: 'no peer is configured' } };
    this.#sync = { status: 1, remaining: 3, from: at };
    return { status: 200, body: { status: 'ok' } };
  }

  #tickSync(): void {
    if (this.#sync.status !== 1) return;
    this.#sync.remaining -= 1;
    if (this.#sync.remaining > 0) return;
    const to = 1 - this.#sync.from;
    const isPossible = this.faults.syncProblem === null && !this.unresponsive.has(to);
    if (isPossible) this.#unit(to).receive(this.#unit(this.#sync.from).running);
    this.#sync.status = isPossible ? 2 : 3;
  }

  /** Work in the background ends, without a request. */
  settle(): void {
    for (let turn = 0; turn < 10; turn += 1) {
      for (const unit of this.units) unit.tick();
      this.#tickSync();
    }
  }

  #unit(at: number): AlteonUnitSimulation {
    const unit = this.units[at];
    if (unit === undefined) throw new Error(`no unit ${at}`);
    return unit;
  }
}

function readServed(unit: AlteonUnitSimulation): readonly Served[] {
  const { running } = unit;
  return [...readTable(running, 'EnhVirtServicesTable')]
    .map(([key, { VirtPort, UDPBalance }]) => {
      const server = readTable(running, 'EnhVirtServerTable').get(key.split('/')[0] ?? '');
      const address =
        server?.['VirtServerIpVer'] === 2
          ? `[${server['VirtServerIpv6Addr']}]`
          : `${server?.['VirtServerIpAddress']}`;
      const group = String(readTable(running, 'EnhVirtServicesSeventhPartTable').get(key)?.['RealGroup']);
      return {
        listener: `${UDPBalance === 2 ? 'udp' : 'tcp'} ${address}:${VirtPort}`,
        members: readMembers(unit, group),
      };
    })
    .sort((one, other) => (one.listener < other.listener ? -1 : 1));
}

function readMembers(unit: AlteonUnitSimulation, group: string): readonly string[] {
  const { running } = unit;
  return [...readTable(running, 'EnhGroupRealServerTable').keys()]
    .filter((key) => key.startsWith(`${group}/`))
    .map((key) => {
      const server = key.slice(group.length + 1);
      const { IpVer, IpAddr, Ipv6Addr, Weight, State } =
        readTable(running, 'EnhRealServerTable').get(server) ?? {};
      const port = readTable(running, 'EnhRealServPortTable').get(`${server}/1`)?.['RealPort'];
      const weight = unit.readMemberState(key) === 1 && State === 2 ? Weight : 0;
      return `${IpVer === 2 ? `[${Ipv6Addr}]` : IpAddr}:${port}=${weight}`;
    })
    .sort();
}
