import type { Machine } from '../machines/machine.ts';
import type { Family } from '../../../lib/net.ts';
import type { Certificates } from '../certificates/certificates.ts';
import { masters, apiserverPort } from '../../../test/support/network/layout.ts';
import { toUrlHost } from '../components/command.ts';

/** An apiserver that hangs is passed over after this; one in a virtual machine may need seconds. */
const limitSeconds = 6;

/** The lab's own way to the API: from one machine, straight to the first apiserver that answers. */
export class Api {
  readonly #machine: Machine;
  readonly #family: Family;
  readonly #certificates: Certificates;

  constructor(machine: Machine, family: Family, certificates: Certificates) {
    this.#machine = machine;
    this.#family = family;
    this.#certificates = certificates;
  }

  /** Creates an object in a collection; answers it as it is then. One that exists already is left as it is. */
  async create(collection: string, object: ApiObject): Promise<unknown> {
    let complaint = '';
    for (const { addresses } of masters) {
      const server = toUrlHost(addresses[this.#family]);
      let { object: answer } = await this.#ask(server, { method: 'POST', path: collection, object });
      // Also one whose creation was answered too late.
      if (answer.reason === 'AlreadyExists') {
        const path = `${collection}/${object.metadata.name}`;
        ({ object: answer } = await this.#ask(server, { method: 'GET', path }));
      }
      if (answer.kind !== 'Status') return answer;
      complaint = answer.message ?? '';
    }
    throw new Error(`no apiserver created an object in ${collection}: ${complaint}`);
  }

  /** What is at a path: an object or a list. */
  async read(path: string): Promise<unknown> {
    let complaint = '';
    for (const { addresses } of masters) {
      const server = toUrlHost(addresses[this.#family]);
      const { object: answer } = await this.#ask(server, { method: 'GET', path });
      if (answer.kind !== 'Status') return answer;
      complaint = answer.message ?? '';
    }
    throw new Error(`no apiserver answers what is at ${path}: ${complaint}`);
  }

  /** Asks the first master's apiserver, once, and answers whatever it answers. */
  async ask(question: ApiQuestion): Promise<ApiAnswer> {
    const [first = ''] = masters.map(({ addresses }) => toUrlHost(addresses[this.#family]));
    return await this.#ask(first, question);
  }

  /** A failure to ask is answered as a Status, like the apiserver's own. */
  async #ask(server: string, question: ApiQuestion): Promise<ApiAnswer> {
    const { method, path, object, token } = question;
    const { authority, admin } = this.#certificates;
    const identity =
      token === undefined
        ? ['--cert', admin.certificate, '--key', admin.key]
        : ['--header', `authorization: Bearer ${token}`];
    const body = object === undefined ? [] : ['--data-binary', '@-'];
    const command = [
      ...['curl', '--silent', '--show-error', '--max-time', String(limitSeconds), '--cacert', authority],
      ...[...identity, '--header', `content-type: ${toContentType(question)}`, ...body, '--request', method],
      ...['--write-out', '\\n%{http_code}', `https://${server}:${apiserverPort}${path}`],
    ];
    const input = object === undefined ? '' : JSON.stringify(object);
    const { exitCode, stdout, stderr } = await this.#machine.run(command, { input });
    if (exitCode !== 0) return { code: 0, object: { kind: 'Status', message: stderr } };
    const end = stdout.lastIndexOf('\n');
    return { code: Number(stdout.slice(end + 1)), object: readObject(stdout.slice(0, end)) };
  }
}

/** What a body of a question is. */
export function toContentType({ method, isStrategic = false }: ApiQuestion): string {
  if (method !== 'PATCH') return 'application/json';
  return isStrategic ? 'application/strategic-merge-patch+json' : 'application/merge-patch+json';
}

/** Anything that can be created. */
export interface ApiObject {
  readonly metadata: { readonly name: string; readonly [field: string]: unknown };
  readonly [field: string]: unknown;
}

/** One request. */
export interface ApiQuestion {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** With its query. */
  readonly path: string;
  /** What is sent; with PATCH, what is merged into the object. */
  readonly object?: object;
  /** With PATCH: a strategic merge patch, which merges lists by their keys. */
  readonly isStrategic?: boolean;
  /** Who asks; the administrator by default. */
  readonly token?: string;
}

/** What an apiserver answered: 0 is for one that did not. */
export interface ApiAnswer {
  readonly code: number;
  /** An object, or a Status that says why there is none; empty for what is no object. */
  readonly object: {
    readonly kind?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly [field: string]: unknown;
  };
}

/** The events of a watch are no object, and `ok` is none. */
function readObject(text: string): ApiAnswer['object'] {
  try {
    return JSON.parse(text) as ApiAnswer['object'];
  } catch {
    return {};
  }
}
