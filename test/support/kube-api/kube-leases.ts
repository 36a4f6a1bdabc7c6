import { type IncomingMessage } from 'node:http';

interface StoredLease {
  readonly metadata: {
    readonly name: string;
    readonly resourceVersion: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: Readonly<Record<string, unknown>>;
}

interface Reply {
  readonly code: number;
  readonly body: object | string;
}

const toStatus = (code: number, reason: string) => {
  return { kind: 'Status', status: code < 300 ? 'Success' : 'Failure', reason, message: reason, code };
};

/** Where Leases of all namespaces are. */
export const leasesPattern = /^\/apis\/coordination\.k8s\.io\/v1\/namespaces\/[^/]+\/leases(?:\/|$)/;

/** Leases as kube-apiserver keeps them: with versions, and merge patches. */
export class KubeLeases {
  readonly #nameToLease = new Map<string, StoredLease>();
  #version = 0;
  /** What each write is answered with instead of being done: a status, if any. */
  refusal: number | null = null;
  /** How many writes were taken. */
  writes = 0;

  find(name: string): StoredLease | null {
    return this.#nameToLease.get(name) ?? null;
  }

  /** Answers a request for the collection or a Lease in it. */
  async answer(request: IncomingMessage, pathname: string): Promise<Reply> {
    let text = '';
    for await (const part of request) text += String(part);
    const name = pathname.replace(leasesPattern, '');
    if (request.method === 'GET' && name === '') return { code: 200, body: this.#list() };
    if (request.method === 'GET') return this.#toReply(200, this.find(name));
    if (this.refusal !== null) return { code: this.refusal, body: 'leases cannot be written' };
    const sent = JSON.parse(text) as StoredLease;
    if (request.method === 'POST') return this.#create(sent);
    const before = this.find(name);
    if (before === null) return this.#toReply(404, null);
    if (request.method === 'PATCH') return this.#patch(before, sent);
    this.#nameToLease.delete(name);
    return { code: 200, body: toStatus(200, 'deleted') };
  }

  #list(): object {
    const metadata = { resourceVersion: String(this.#version + 1) };
    return { kind: 'LeaseList', metadata, items: [...this.#nameToLease.values()] };
  }

  #create(sent: StoredLease): Reply {
    const { name } = sent.metadata;
    if (this.#nameToLease.has(name)) return { code: 409, body: toStatus(409, 'AlreadyExists') };
    return this.#toReply(201, this.#put(sent));
  }

  #patch(before: StoredLease, { metadata, spec }: StoredLease): Reply {
    if (metadata.resourceVersion !== before.metadata.resourceVersion)
      return { code: 409, body: 'the object has been modified' };
    const annotations = { ...before.metadata.annotations, ...metadata.annotations };
    const merged = {
      ...before,
      metadata: { ...before.metadata, annotations },
      spec: { ...before.spec, ...spec },
    };
    return this.#toReply(200, this.#put(merged));
  }

  #put(lease: StoredLease): StoredLease {
    this.#version += 1;
    this.writes += 1;
    const stored = {
      ...lease,
      kind: 'Lease',
      metadata: {
        uid: `uid of ${lease.metadata.name}`,
        ...lease.metadata,
        resourceVersion: String(this.#version),
      },
    };
    this.#nameToLease.set(lease.metadata.name, stored);
    return stored;
  }

  #toReply(code: number, lease: StoredLease | null): Reply {
    return lease === null ? { code: 404, body: 'leases not found' } : { code, body: lease };
  }
}
