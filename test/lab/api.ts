import { type Family } from '../../lib/address/address.ts';
import { apiserverPort, masters } from '../network/layout.ts';
import { type Certificates } from './certificates.ts';
import { toUrlHost } from './components/command.ts';
import { type Machine } from './machines/machine.ts';

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

  /** What is at a path. */
  get(path: string): Promise<unknown> {
    return this.#request(['--request', 'GET'], path, '');
  }

  /** Creates an object in a collection; answers it as it is then. One that exists already is left as it is. */
  create(collection: string, object: unknown): Promise<unknown> {
    return this.#request(['--request', 'POST'], collection, JSON.stringify(object));
  }

  /** Deletes what is at a path. */
  async remove(path: string): Promise<void> {
    await this.#request(['--request', 'DELETE'], path, '');
  }

  async #request(words: readonly string[], path: string, body: string): Promise<unknown> {
    const { authority, admin } = this.#certificates;
    const identity = ['--cacert', authority, '--cert', admin.certificate, '--key', admin.key];
    const sent = body === '' ? [] : ['--header', 'content-type: application/json', '--data-binary', '@-'];
    let complaint = '';
    for (const { addresses } of masters) {
      const url = `https://${toUrlHost(addresses[this.#family])}:${apiserverPort}${path}`;
      const { exitCode, stdout, stderr } = await this.#machine.run(
        [
          'curl',
          '--silent',
          '--show-error',
          '--max-time',
          String(limitSeconds),
          ...identity,
          ...words,
          ...sent,
          url,
        ],
        { input: body },
      );
      if (exitCode !== 0) {
        complaint = stderr;
        continue;
      }
      const answer = JSON.parse(stdout) as {
        kind?: string;
        status?: string;
        reason?: string;
        message?: string;
      };
      if (answer.kind !== 'Status' || answer.status !== 'Failure' || answer.reason === 'AlreadyExists')
        return answer;
      complaint = answer.message ?? stdout;
    }
    throw new Error(`no apiserver took ${words[1] ?? ''} ${path}: ${complaint}`);
  }
}
