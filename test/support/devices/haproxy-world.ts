import { HurriedClock } from './hurried-clock.ts';
import { HaproxyUnit } from './haproxy-unit.ts';
import {
  type DeviceSettings,
  type LoadBalancerDriver,
  type Balancer,
  type Listener,
  formatMember,
  type Member,
} from '../../../devices/driver.ts';
import type { Reached, Session } from '../../../devices/conformance/bench.ts';
import type { Sites } from '../../../devices/conformance/shapes.ts';
import { type Server, Socket, createServer, connect } from 'node:net';
import { toAddress, toListener, toBalancer } from './alteon-world.ts';
import { createHaproxy } from '../../../devices/haproxy/driver.ts';
import { waitUntil } from '../jest/waiting.ts';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { promisify } from 'node:util';
import { execFile } from 'node:child_process';

/** Real units of HAProxy on loopback addresses that no other world has, and servers for members. */
export class HaproxyWorld {
  readonly clock = new HurriedClock(1000);
  readonly units: readonly HaproxyUnit[];
  readonly settings: DeviceSettings;
  readonly sites: Sites;
  /** Told of each call right before it is sent. */
  beforeCall: (call: string) => Promise<void> | void = () => undefined;
  /** With the option proxyProtocol: who has connected to members, as `readProxyHeader` says. */
  readonly clients = new Set<string>();
  readonly #block: string;
  readonly #lock: Server;
  readonly #servers = new Map<string, Server>();
  readonly #sockets = new Set<Socket>();

  private constructor(block: string, lock: Server, parts: Pick<HaproxyWorld, 'units' | 'settings'>) {
    this.#block = block;
    this.#lock = lock;
    this.units = parts.units;
    this.settings = parts.settings;
    const list = (first: number, count: number) =>
      Array.from({ length: count }, (_, at) => toAddress(`${block}.${first + at}`));
    this.sites = {
      ...{
        ipv4: list(10, 30),
        ipv6: [toAddress('2001:db8::1'), toAddress('2001:db8::2')],
        ports: [8080, 8081, 8443],
      },
      ...{ memberIpv4: list(100, 60), memberIpv6: [toAddress('2001:db8:1::1'), toAddress('2001:db8:1::2')] },
      memberPorts: [30_080, 30_443],
    };
  }

  static async start(count: 1 | 2, options: Readonly<Record<string, string>> = {}): Promise<HaproxyWorld> {
    const { block, lock } = await takeBlock();
    const hosts = [1, 2].slice(0, count).map((at) => `${block}.${at}`);
    const { ca, tls } = await makeCertificate(hosts);
    const settings: DeviceSettings = {
      ...{
        name: 'edge',
        cluster: 'prod',
        identity: '1a2b3c4d',
        units: hosts.map((host) => `${host}:9443`),
        ca,
      },
      credentials: { username: 'vipnat', password: 'a word' },
      options: { ports: '8080-8081,8443', slots: 'rr=24,lc=4,hash=4', management: '127.0.0.0/8', ...options },
    };
    const units: HaproxyUnit[] = [];
    const world = new HaproxyWorld(block, lock, { units, settings });
    worlds.push(world);
    for (const at of hosts.keys()) {
      const addresses = [`${block}.10-${block}.39`, '2001:db8::1-2001:db8::2'];
      const unit = await HaproxyUnit.make({ settings, addresses, at, tls });
      units.push(unit);
      await unit.start();
      if (count === 2) await unit.setRole(at === 0 ? 'active' : 'standby');
    }
    return world;
  }

  /** As after a start of the process: nothing is remembered. */
  makeDriver(changes: Partial<DeviceSettings> = {}): LoadBalancerDriver {
    return createHaproxy(
      { ...this.settings, ...changes },
      { clock: this.clock, beforeCall: (call) => this.beforeCall(call) },
    );
  }

  /** A Service at this world's first address and port. */
  toBalancer(members: readonly string[], changes: Partial<Balancer> = {}): Balancer {
    const listeners = [toListener('tcp 8080', members)];
    return toBalancer([], { addresses: this.sites.ipv4.slice(0, 1), listeners, ...changes });
  }

  /** Servers that say who they are: `ADDRESS:PORT` of each, which members have. */
  async startMembers(count: number): Promise<readonly string[]> {
    const members: string[] = [];
    for (const address of this.sites.memberIpv4.slice(0, count)) {
      members.push(await this.#serve({ address, port: 0, weight: 1 }));
    }
    return members;
  }

  async endMember(member: string): Promise<void> {
    await closeServer(this.#servers.get(member));
    this.#servers.delete(member);
  }

  /** Which members answer so many connections, one after the other; `none` for what is closed without an answer. */
  async connectTimes(count: number, from = `${this.#block}.1`): Promise<readonly string[]> {
    const answers: string[] = [];
    for (let at = 0; at < count; at += 1) {
      const { socket, answer } = await this.#connect(this.sites.ipv4[0]?.text ?? '', 8080, from);
      answers.push(answer);
      socket.destroy();
    }
    return answers;
  }

  /** All members of IPv4 listen from now on: HAProxy sends nothing to one that did not answer its checks. */
  async serveSites(): Promise<void> {
    const { memberIpv4, memberPorts } = this.sites;
    await this.#serveAll(
      memberIpv4.flatMap((address) => memberPorts.map((port) => ({ address, port, weight: 1 }))),
    );
  }

  /** Which member answers a client there. */
  async reach({ addresses: [address] }: Balancer, { port }: Listener): Promise<Reached> {
    if (address?.family !== 'ipv4') return undefined;
    const { socket, answer } = await this.#connect(address.text, port, `${this.#block}.1`);
    socket.destroy();
    return answer === 'none' ? null : answer;
  }

  async openSession({ addresses: [address], listeners: [listener] }: Balancer): Promise<Session> {
    await this.#serveAll(listener?.members ?? []);
    const tries: Connection[] = [];
    await waitUntil(async () => {
      tries.push(await this.#connect(address?.text ?? '', listener?.port ?? 0, `${this.#block}.1`));
      return tries.at(-1)?.answer !== 'none';
    }, 'no member answers');
    const { socket, answer } = tries.at(-1) ?? { socket: new Socket(), answer: '' };
    const member = listener?.members.find((one) => formatMember(one) === answer);
    if (member === undefined) throw new Error(`${answer} is no member`);
    return {
      member,
      isOpen: async () => {
        if (socket.destroyed) return false;
        const echo = receive(socket);
        socket.write('are you there?');
        return (await echo).length > 0;
      },
      close: () => {
        socket.destroy();
        return Promise.resolve();
      },
    };
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers.values()) await closeServer(server);
    for (const unit of this.units) await unit.remove();
    await closeServer(this.#lock);
  }

  async #serveAll(members: readonly Member[]): Promise<void> {
    for (const member of members) if (!this.#servers.has(formatMember(member))) await this.#serve(member);
  }

  async #serve(member: Member): Promise<string> {
    const server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => undefined).on('close', () => this.#sockets.delete(socket));
      if (this.settings.options['proxyProtocol'] === 'v2') {
        void receive(socket).then((head) => {
          const client = readProxyHeader(head);
          this.clients.add(client);
          socket.write(client);
        });
        return;
      }
      const { localAddress = '', localPort = 0 } = socket;
      socket.write(`${localAddress}:${localPort}`);
      socket.pipe(socket);
    });
    await listen(server, member.address.text, member.port);
    const { port } = server.address() as { readonly port: number };
    const name = formatMember({ ...member, port });
    this.#servers.set(name, server);
    return name;
  }

  async #connect(host: string, port: number, localAddress: string): Promise<Connection> {
    const socket = connect({ host, port, localAddress });
    this.#sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => this.#sockets.delete(socket));
    return { socket, answer: (await receive(socket)).toString() || 'none' };
  }
}

/** What comes first; nothing where the socket closes before. */
async function receive(socket: Socket): Promise<Buffer> {
  return await new Promise((resolve) => {
    socket.once('data', resolve).once('close', () => {
      resolve(Buffer.alloc(0));
    });
  });
}

interface Connection {
  readonly socket: Socket;
  /** Which member answered; `none` where it was closed before. */
  readonly answer: string;
}

/** The client's address; `check` for HAProxy itself, `unknown` without a header. Source: HAProxy's proxy-protocol.txt, 2.2. */
function readProxyHeader(head: Buffer): string {
  if (head.subarray(0, 12).toString('latin1') !== '\r\n\r\n\0\r\nQUIT\n') return 'unknown';
  return head[12] === 0x20 ? 'check' : head.subarray(16, 20).join('.');
}

const worlds: HaproxyWorld[] = [];

/** To be called after each test. */
export async function stopHaproxyWorlds(): Promise<void> {
  for (const world of worlds.splice(0)) await world.stop();
}

/** A network of loopback addresses: whoever listens at its last one has it. */
async function takeBlock(): Promise<{ readonly block: string; readonly lock: Server }> {
  for (let number = process.pid; ; number += 1) {
    const block = `127.${64 + (Math.floor(number / 256) % 64)}.${number % 256}`;
    const lock = createServer();
    const isFree = await listen(lock, `${block}.254`, 9443).then(
      () => true,
      () => false,
    );
    if (isFree) return { block, lock };
  }
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen({ host, port }, resolve);
  });
}

async function closeServer(server: Server | undefined): Promise<void> {
  if (server === undefined) return;
  await new Promise((resolve) => server.close(resolve));
}

/** A certificate for all units and its key, as docs/device-haproxy.md says. */
export async function makeCertificate(hosts: readonly string[]) {
  const folder = await mkdtemp(join(tmpdir(), 'vipnat-haproxy-tls-'));
  try {
    const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
    const names = hosts.map((host) => `IP:${host}`).join(',');
    await promisify(execFile)('openssl', [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30'],
      ...['-subj', '/CN=vipnat', '-addext', `subjectAltName=${names}`, '-keyout', key, '-out', certificate],
    ]);
    const ca = await readFile(certificate, 'utf8');
    return { ca, tls: `${await readFile(key, 'utf8')}${ca}` };
  } finally {
    await rm(folder, { recursive: true });
  }
}
