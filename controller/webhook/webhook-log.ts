import { describeUnreadable, type Unreadable } from '../../lib/kubernetes/errors.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type VipnatError } from '../../lib/text/errors.ts';
import { type ReadPair } from './certificate.ts';
import { type CertificateStep } from './plan-certificates.ts';

const stepToLine: Readonly<Record<CertificateStep['step'], string>> = {
  make: 'the controller made a certificate for the webhook. API servers trust it before it is used',
  trust: "the controller wrote into the webhook's configuration which certificates API servers trust",
  serve: 'all controllers serve the webhook with the new certificate from now on',
  wait: '',
};

/** What the webhook tells: lines of the controller's log. */
export class WebhookLog {
  readonly #logger: Logger;
  /** Kinds of objects that cannot be followed. */
  readonly #lost = new Set<string>();
  #problem = '';

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** A step was written. */
  stepped(step: CertificateStep['step'], pair: ReadPair | null): void {
    this.#problem = '';
    this.#logger.info(`${stepToLine[step]}${pair === null ? '' : `. It ends on ${toDay(pair)}`}`);
  }

  /** A step could not be written. */
  certificateProblem(words: string): void {
    const level = this.#problem === words ? 'debug' : 'warn';
    this.#problem = words;
    const line = `the webhook's certificate is not as it has to be: ${words}. vipnat tries again`;
    this.#logger[level](line, { code: 'API_ANSWER_UNEXPECTED' });
  }

  /** This process serves with a pair from now on. */
  serves(pair: ReadPair): void {
    this.#logger.info(`the webhook of this controller has a certificate that ends on ${toDay(pair)}`);
  }

  /** It cannot have its port. */
  cannotListen({ message, code }: VipnatError): void {
    this.#logger.warn(message, { code });
  }

  /** It has it after all. */
  listens(port: number): void {
    this.#logger.info(`the webhook is now served at port ${port}`);
  }

  /** A kind of objects cannot be followed. */
  lost(kind: string, { code, message }: VipnatError): void {
    const level = this.#lost.has(kind) ? 'debug' : 'warn';
    this.#lost.add(kind);
    this.#logger[level](`the webhook cannot follow ${kind}s: ${message}. It keeps trying`, { code });
  }

  /** An object cannot be read. */
  unreadable(kind: string, unreadable: Unreadable): void {
    this.#logger.warn(describeUnreadable(kind, unreadable), { code: 'API_ANSWER_UNEXPECTED' });
  }

  /** It is followed. */
  followed(kind: string): void {
    if (this.#lost.delete(kind)) this.#logger.info(`the webhook follows ${kind}s again`);
    else this.#logger.debug(`the webhook follows ${kind}s`);
  }
}

function toDay({ untilMs }: ReadPair): string {
  return new Date(untilMs).toISOString().slice(0, 10);
}
