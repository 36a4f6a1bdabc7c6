import { type Family } from '../../lib/address/address.ts';
import { apiserverPort, masters } from '../network/layout.ts';
import { type Certificates } from './certificates.ts';
import { toUrlHost } from './components/command.ts';
import { type CommandResult, type Machine } from './machines/machine.ts';

/** An apiserver that hangs is passed over after this. */
const limitSeconds = 3;

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
  async create(collection: string, object: unknown): Promise<unknown> {
    let complaint = '';
    for (const { addresses } of masters) {
      const url = `https://${toUrlHost(addresses[this.#family])}:${apiserverPort}${collection}`;
      const { exitCode, stdout, stderr } = await this.#post(url, JSON.stringify(object));
      const answer = (exitCode === 0 ? JSON.parse(stdout) : {}) as ApiAnswer;
      if (exitCode === 0 && (answer.kind !== 'Status' || answer.reason === 'AlreadyExists')) return answer;
      complaint = answer.message ?? stderr;
    }
    throw new Error(`no apiserver created an object in ${collection}: ${complaint}`);
  }

  #post(url: string, input: string): Promise<CommandResult> {
    const { authority, admin } = this.#certificates;
    const identity = ['--cacert', authority, '--cert', admin.certificate, '--key', admin.key];
    const body = ['--header', 'content-type: application/json', '--data-binary', '@-'];
    const behaviour = ['--silent', '--show-error', '--max-time', String(limitSeconds)];
    return this.#machine.run(['curl', ...behaviour, ...identity, ...body, url], { input });
  }
}

/** An object, or a Status that says why there is none. */
interface ApiAnswer {
  readonly kind?: string;
  readonly reason?: string;
  readonly message?: string;
}
