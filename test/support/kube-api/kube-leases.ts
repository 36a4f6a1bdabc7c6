import { type IncomingMessage } from 'node:http';
import { readJson, type Reply, toStatus } from './kube-answers.ts';
import { ObjectApi, type StoredObject } from '../fakes/object-api.ts';
import type { Write } from '../../../controller/step.ts';

/** Where Leases of all namespaces are. */
export const leasesPattern = /^\/apis\/coordination\.k8s\.io\/v1\/namespaces\/[^/]+\/leases(?:\/|$)/;

type Lease = StoredObject & { readonly spec: Readonly<Record<string, unknown>> };

/** Leases as kube-apiserver keeps them. */
export class KubeLeases {
  readonly #api = new ObjectApi(Date.now, () => (this.writes += 1));
  /** What each write is answered with instead of being done: a status, if any. */
  refusal: number | null = null;
  writes = 0;

  /** Of that name in any namespace. */
  find(name: string): Lease | null {
    const leases = [...this.#api.list('Lease').values()] as Lease[];
    return leases.find(({ metadata }) => metadata.name === name) ?? null;
  }

  /** Answers a request for the collection or a Lease in it. */
  async answer(request: IncomingMessage, path: string): Promise<Reply> {
    const isAll = path.endsWith('/leases');
    if (request.method === 'GET') return isAll ? { code: 200, body: this.#list() } : this.#toReply(200, path);
    if (this.refusal !== null) return { code: this.refusal, body: 'leases cannot be written' };
    return this.#write(request.method, path, (await readJson(request)) ?? {});
  }

  #write(method: string | undefined, path: string, body: Partial<StoredObject>): Reply {
    const write = { method, path, body } as Write;
    const { name = '', resourceVersion } = body.metadata ?? {};
    if (write.method === 'PATCH' && resourceVersion === undefined)
      return { code: 409, body: 'the object has been modified' };
    const code = this.#api.handle(write);
    const reason = write.method === 'POST' ? 'AlreadyExists' : 'Conflict';
    if (code === 409) return { code, body: { ...toStatus(code, reason), reason } };
    if (write.method === 'DELETE') return { code, body: { kind: 'Status', status: 'Success' } };
    return this.#toReply(code, write.method === 'POST' ? `${path}/${name}` : path);
  }

  #list(): object {
    const metadata = { resourceVersion: String(this.#api.version) };
    return { kind: 'LeaseList', metadata, items: [...this.#api.list('Lease').values()] };
  }

  #toReply(code: number, path: string): Reply {
    const lease = this.#api.find(path);
    return lease === null
      ? { code: 404, body: 'leases not found' }
      : { code, body: { kind: 'Lease', ...lease } };
  }
}
