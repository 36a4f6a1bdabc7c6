import { type Process, SingleApiserver, startProcess } from './single-apiserver.ts';
import { PlayedNodes } from './played-nodes.ts';
import { type KubernetesObject, parse, print } from '../../support/manifest/printing.ts';
import { findFreePort } from '../../support/network/free-port.ts';
import { virtualIps, addressPools, webhookName } from '../../../lib/api/vipnat.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { vipnatCommand } from '../../../tools/lab/components/agent.ts';
import { beforeAll, afterAll } from '@jest/globals';
import { join } from 'node:path';
import { WaitedTooLong } from '../../support/jest/waiting.ts';
import { readFileSync } from 'node:fs';
import type { ApiAnswer } from '../../../tools/lab/control-plane/api.ts';
import { apply, requestToken } from './apply.ts';

export const namespace = 'vipnat-system';

/** A type of readiness gates that the controllers open besides their own. */
export const seedGate = 'cloudnativestation.net/load-balancer-ready';

export const servicesPath = '/api/v1/namespaces/default/services';

/** Steps take milliseconds; a machine with more to do is slow. */
export const stepsMs = 30_000;

/** A lease of 15 s, a retry, and all objects read anew. */
export const takeoverMs = 60_000;

interface Published {
  readonly ip: string;
  readonly ipMode: string;
  readonly ports?: readonly object[];
}

/** As much of a Service as tests look at. */
export interface Balanced {
  readonly metadata: {
    readonly finalizers?: readonly string[];
    readonly uid: string;
    readonly resourceVersion: string;
  };
  readonly status: {
    readonly loadBalancer: { readonly ingress?: readonly Published[] };
    readonly conditions?: readonly Readonly<Record<'type' | 'status' | 'reason', string>>[];
  };
}

/** Starts one before the tests of a file, and stops it after them. */
export function useServicesWorld(...options: Parameters<typeof ServicesWorld.start>): () => ServicesWorld {
  let world: ServicesWorld | undefined;
  beforeAll(async () => {
    world = await ServicesWorld.start(...options);
  });
  afterAll(() => world?.stop());
  return () => {
    if (world === undefined) throw new Error('there is no apiserver');
    return world;
  };
}

/** A Kubernetes API with played nodes, and two controllers that have the rights that `vipnat manifest services` prints. */
export class ServicesWorld {
  readonly controllers = new Map<string, Process>();
  readonly api: SingleApiserver;
  readonly nodes: PlayedNodes;
  readonly printed: readonly KubernetesObject[];
  /** Where each controller that starts serves the webhook; none does where there is a policy. */
  readonly webhookPorts = new Map<string, number>();
  token = '';
  kubeconfig = '';

  private constructor(api: SingleApiserver, printed: readonly KubernetesObject[]) {
    this.api = api;
    this.printed = printed;
    this.nodes = new PlayedNodes(api, namespace, ['n1', 'n2']);
  }

  static async start(
    controllers: readonly string[] = ['c1', 'c2'],
    injection: 'policy' | 'webhook' = 'policy',
  ): Promise<ServicesWorld> {
    const pools = ['--pool', '10.0.9.10-10.0.9.19', '--pool', 'fd00:9::/124'];
    const words = ['services', ...pools, `--inject-gates=${injection}`, `--gate=${seedGate}`];
    const world = new ServicesWorld(await SingleApiserver.start(), parse(await print(words)));
    try {
      if (injection === 'webhook')
        for (const name of controllers) world.webhookPorts.set(name, await findFreePort());
      await world.#begin(controllers);
      return world;
    } catch (error) {
      await world.stop();
      throw error;
    }
  }

  async #begin(controllers: readonly string[]): Promise<void> {
    const [port = 0] = this.webhookPorts.values();
    for (const object of this.printed) await this.create(leadHere(object, port));
    const question = { method: 'GET', path: virtualIps.path } as const;
    await waitFor(async () => (await this.api.ask(question)).code === 200, stepsMs);
    this.token = await this.requestToken(namespace, 'vipnat-controller');
    this.kubeconfig = this.api.writeKubeconfig('controller', this.token);
    await this.nodes.start();
    for (const name of controllers) this.startController(name);
  }

  async stop(): Promise<void> {
    await this.nodes.stop();
    for (const controller of this.controllers.values()) controller.kill('SIGKILL');
    for (const controller of this.controllers.values()) await controller;
    await this.api.stop();
  }

  async requestToken(where: string, account: string): Promise<string> {
    return await requestToken(this, where, account);
  }

  /** Starts one, with the rights that are printed. */
  startController(name: string, { kubeconfig = this.kubeconfig, listen = 'off', driver = '' } = {}): Process {
    const words = ['controller', '--kubeconfig', kubeconfig, '--listen', listen, '--log-level', 'debug'];
    words.push('--gate', seedGate, ...(driver === '' ? [] : ['--driver', driver]));
    const port = this.webhookPorts.get(name);
    if (port !== undefined) words.push('--webhook-port', String(port));
    const controller = startProcess(vipnatCommand(...words), join(this.api.folder, `${name}.log`));
    this.controllers.set(name, controller);
    return controller;
  }

  /** Creates an object as the apiserver takes it strictly. */
  async create(object: KubernetesObject): Promise<void> {
    await apply(this, [object]);
  }

  /** Creates a Service of our class. */
  async createService(name: string, spec: object = {}, annotations: object = {}): Promise<void> {
    const own = { type: 'LoadBalancer', loadBalancerClass: 'vipnat.io/lb', selector: { app: name } };
    const metadata = { name, namespace: 'default', annotations };
    const object = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: { ...own, ports: [{ port: 80 }], ...spec },
    };
    const { code, object: answer } = await this.api.ask({ method: 'POST', path: servicesPath, object });
    if (code !== 201) throw new Error(answer.message);
  }

  /** What the API says of it; null when it is gone. */
  async readService(name: string): Promise<Balanced | null> {
    const { code, object } = await this.api.ask({ method: 'GET', path: `${servicesPath}/${name}` });
    return code === 200 ? (object as unknown as Balanced) : null;
  }

  async readAddresses(name: string): Promise<string[]> {
    return ((await this.readService(name))?.status.loadBalancer.ingress ?? []).map(({ ip }) => ip);
  }

  async awaitAddresses(name: string, count = 1, limitMs = stepsMs): Promise<string[]> {
    await waitFor(async () => (await this.readAddresses(name)).length === count, limitMs).catch(() => {
      throw new WaitedTooLong(`${name} has no ${count} addresses:\n${this.readLogs()}`);
    });
    return await this.readAddresses(name);
  }

  readLogs(): string {
    return [...this.controllers.keys()]
      .map((name) => this.readLog(name).split('\n').slice(-15).join('\n'))
      .join('\n--\n');
  }

  readLog(name: string): string {
    return readFileSync(join(this.api.folder, `${name}.log`), 'utf8');
  }

  /** Deletes a Service, and waits until it is gone. */
  async remove(name: string): Promise<void> {
    await this.api.ask({ method: 'DELETE', path: `${servicesPath}/${name}` });
    await waitFor(async () => (await this.readService(name)) === null, stepsMs);
  }

  /** The names of all VirtualIPs: the addresses that Services have, or that wait. */
  async listVirtualIps(): Promise<string[]> {
    const { object } = await this.api.ask({ method: 'GET', path: virtualIps.path });
    return (object['items'] as readonly KubernetesObject[]).map(({ metadata }) => metadata.name);
  }

  /** Deletes a pool, and waits until it is gone. */
  async removePool(name: string): Promise<void> {
    const path = `${addressPools.path}/${name}`;
    await this.api.ask({ method: 'DELETE', path });
    await waitFor(async () => (await this.api.ask({ method: 'GET', path })).code === 404, stepsMs);
  }

  async readPool(name: string): Promise<ApiAnswer['object']> {
    return (await this.api.ask({ method: 'GET', path: `${addressPools.path}/${name}` })).object;
  }
}

/** There is no kube-proxy: the apiserver finds the first controller by a name and a port of this host. */
function leadHere(object: KubernetesObject, port: number): KubernetesObject {
  if (object.metadata.name !== webhookName) return object;
  if (object.kind === 'Service')
    return { ...object, spec: { type: 'ExternalName', externalName: 'localhost' } };
  if (object.kind !== 'MutatingWebhookConfiguration') return object;
  const [webhook] = object['webhooks'] as readonly { readonly clientConfig: { readonly service: object } }[];
  const service = { ...webhook?.clientConfig.service, port };
  return { ...object, webhooks: [{ ...webhook, clientConfig: { service } }] };
}
