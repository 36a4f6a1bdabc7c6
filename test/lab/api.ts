import { type Family } from '../../lib/address/address.ts';
import { apiserverPort, masters } from '../network/layout.ts';
import { type Certificates } from './certificates.ts';
import { toUrlHost } from './components/command.ts';
import { type Machine } from './machines/machine.ts';

/** An apiserver that hangs is passed over after this; one in a virtual machine may need seconds. */
const limitSeconds = 6;

/** The lab's own way to the API: as administrator, from one machine, straight to the first apiserver that answers. */
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
      const url = `https://${toUrlHost(addresses[this.#family])}:${apiserverPort}${collection}`;
      let answer = await this.#ask(url, JSON.stringify(object));
      // Also one whose creation was answered too late.
      if (answer.reason === 'AlreadyExists') answer = await this.#ask(`${url}/${object.metadata.name}`);
      if (answer.kind !== 'Status') return answer;
      complaint = answer.message ?? '';
    }
    throw new Error(`no apiserver created an object in ${collection}: ${complaint}`);
  }

  /** Posts what there is, else gets; a failure is answered as a Status, like the apiserver's own. */
  async #ask(url: string, input?: string): Promise<ApiAnswer> {
    const { authority, admin } = this.#certificates;
    const identity = ['--cacert', authority, '--cert', admin.certificate, '--key', admin.key];
    const post = ['--header', 'content-type: application/json', '--data-binary', '@-'];
    const behaviour = ['--silent', '--show-error', '--max-time', String(limitSeconds)];
    const command = ['curl', ...behaviour, ...identity, ...(input === undefined ? [] : post), url];
    const { exitCode, stdout, stderr } = await this.#machine.run(command, { input: input ?? '' });
    return exitCode === 0 ? (JSON.parse(stdout) as ApiAnswer) : { kind: 'Status', message: stderr };
  }
}

/** Anything that can be created. */
export interface ApiObject {
  readonly metadata: { readonly name: string; readonly [field: string]: unknown };
  readonly [field: string]: unknown;
}

/** An object, or a Status that says why there is none. */
interface ApiAnswer {
  readonly kind?: string;
  readonly reason?: string;
  readonly message?: string;
}
