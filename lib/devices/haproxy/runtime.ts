import { exchangeText } from '../../http/tls-exchange.ts';
import { DeviceError } from '../device-error.ts';
import { type DriverContext } from '../driver.ts';
import { type HaproxyAddress, type HaproxySettings } from './settings.ts';

/** A unit answers within milliseconds; a host that is nearly dead gets this long. */
const limitMs = 10_000;

/** So long each change of a pair waits for a unit that is gone. A SYN that is lost comes again after a second. */
const connectLimitMs = 2000;

/** A hundred thousand servers, with room. */
const maxBytes = 64 * 1024 * 1024;

/** What HAProxy prints after each answer when it is interactive. Source: its management guide, 9.3. */
const promptText = '\n> ';

/** The runtime interface of one unit, by TLS. Each call is a connection of its own. */
export class HaproxyRuntime {
  readonly unit: string;
  readonly #address: HaproxyAddress;
  readonly #settings: Pick<HaproxySettings, 'login' | 'ca'>;
  readonly #context: DriverContext;

  constructor(
    address: HaproxyAddress,
    settings: Pick<HaproxySettings, 'login' | 'ca'>,
    context: DriverContext,
  ) {
    this.unit = address.unit;
    this.#address = address;
    this.#settings = settings;
    this.#context = context;
  }

  /**
   * Lets the unit do these commands, one after the other, and answers with what it prints for each. One that fails stops no other.
   * @throws DeviceError unreachable where not all were answered: some may be done. unauthorized where it takes no commands.
   */
  async run(
    kind: 'read' | 'write',
    commands: readonly string[],
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    const { clock, beforeCall } = this.#context;
    await beforeCall(`${kind} ${this.unit}`);
    const { host, port } = this.#address;
    const { login, ca } = this.#settings;
    const text = `${[login, ...commands, 'quit'].join('\n')}\n`;
    try {
      const limits = { connectLimitMs, limitMs, maxBytes };
      const answer = await exchangeText({ host, port, ca, text, ...limits, clock, signal });
      return this.#split(answer, commands.length);
    } catch (error) {
      signal.throwIfAborted();
      throw this.#explain(error);
    }
  }

  #split(text: string, count: number): readonly string[] {
    const [greeting, ...answers] = text.split(promptText);
    if (text === '')
      throw new DeviceError(
        'unauthorized',
        `${this.unit} closes the connection: it does not take the credentials`,
      );
    if (greeting !== '')
      throw new DeviceError('nonsense', `${this.unit} does not answer as HAProxy's runtime interface does`);
    if (answers.length <= count)
      throw new DeviceError('unreachable', `${this.unit} has broken off its answer`);
    return answers.slice(0, count).map((answer) => answer.replace(/^\n+|\n+$/g, ''));
  }

  #explain(error: unknown): DeviceError {
    if (error instanceof DeviceError) return error;
    const { code = '', message } = error as NodeJS.ErrnoException;
    const words = codeToWords.get(code) ?? (code === '' ? message : code);
    return new DeviceError('unreachable', `${this.unit} does not answer: ${words}`, { cause: error });
  }
}

const codeToWords = new Map<string, string>([
  ['ECONNREFUSED', 'connection refused'],
  ['ECONNRESET', 'the connection broke'],
  ['ENOTFOUND', 'its name is unknown'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'its certificate is for another host'],
  ['CERT_HAS_EXPIRED', 'its certificate has expired'],
  ...['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'].map(
    (code) => [code, 'ca.crt of the credentials is missing, or has not signed its certificate'] as const,
  ),
]);
