import type { Logger } from '../lib/telemetry/log.ts';
import type { VipnatError } from '../lib/errors.ts';
import type { Balances, PortBalance } from './services/backends.ts';
import { formatEndpoint } from '../lib/net.ts';

/** A sync may change thousands of Services, and a Service may have thousands of ports: more than these are counted. */
const maxNamed = 5;

/** One line for each change, none when all is as it was. */
export class SyncLog {
  readonly #logger: Logger;
  readonly #serviceToLine = new Map<string, string>();
  readonly #subjectToSentences = new Map<string, readonly string[]>();
  #refused: ReadonlyMap<string, string> = new Map();
  #problem: string | null = null;
  #hasLetGo = false;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** How Services are balanced from now on, once the kernel has it. */
  balanced(changes: ReadonlyMap<string, Balances>): void {
    const lines: string[] = [];
    for (const [service, balances] of changes) {
      const line = describe(service, balances);
      const before = this.#serviceToLine.get(service) ?? `${service} is not balanced`;
      if (line === before) continue;
      lines.push(describe(service, balances, maxNamed));
      if (balances.length === 0) this.#serviceToLine.delete(service);
      else this.#serviceToLine.set(service, line);
    }
    for (const line of lines.slice(0, maxNamed)) this.#logger.info(line);
    const more = lines.length - maxNamed;
    if (more > 0) this.#logger.info(`${more} more Services are balanced otherwise now`);
  }

  /** What was decided about a Service, each once until it changes: endpoints that cannot be used and other remarks as sentences, `left` as a clause. */
  decided(
    service: string,
    refused: readonly string[],
    remarks: readonly string[],
    left: string | null,
  ): void {
    const warnings = this.#takeNew(`refused ${service}`, refused, maxNamed);
    for (const sentence of warnings) this.#logger.warn(`${sentence}: no connection goes there`);
    for (const sentence of this.#takeNew(`remarks ${service}`, remarks)) this.#logger.warn(sentence);
    for (const clause of this.#takeNew(`left ${service}`, left === null ? [] : [left]))
      this.#logger.warn(`vipnat leaves ${service} to kube-proxy: ${clause}`);
  }

  /** Those of the first ones that were not there before. */
  #takeNew(subject: string, sentences: readonly string[], most = Infinity): string[] {
    const before = this.#subjectToSentences.get(subject) ?? [];
    if (sentences.length === 0) this.#subjectToSentences.delete(subject);
    else this.#subjectToSentences.set(subject, sentences);
    return sentences.slice(0, most).filter((sentence) => !before.includes(sentence));
  }

  /** The Services that nft or the kernel refuses, to why. All of them: once until that changes. */
  notTaken(refused: ReadonlyMap<string, string>): void {
    for (const [service, reason] of refused) {
      if (this.#refused.get(service) === reason) continue;
      this.#logger.error(
        `vipnat leaves ${service} to kube-proxy, and tries it again: ${reason}. This changes nothing for other Services`,
        { code: 'TOOL_FAILED' },
      );
    }
    this.#refused = refused;
  }

  /** The kernel did not take it: once until it does. */
  failed({ code, message, details }: VipnatError): void {
    if (this.#problem === message) return;
    this.#problem = message;
    const fields = details === undefined ? { code } : { code, details };
    this.#logger.error(
      `vipnat cannot write its table: ${message}. The table before stays, and vipnat tries again`,
      fields,
    );
  }

  /** What was written last is too old: once until it is written again. */
  letGo(): void {
    if (this.#hasLetGo) return;
    this.#hasLetGo = true;
    this.#logger.error(
      "vipnat lets its table run out, as it is too old: kube-proxy's rules get the connections",
    );
  }

  /** The kernel has all that is wanted. */
  done(): void {
    if (this.#problem !== null) this.#logger.info('vipnat writes its table again');
    this.#problem = null;
    this.#hasLetGo = false;
  }
}

function describe(service: string, balances: Balances, most = Infinity): string {
  if (balances.length === 0) return `${service} is not balanced`;
  const more = balances.length - most;
  const rest = more > 0 ? ` and ${more} more ports` : '';
  return `${service} is balanced: ${balances.slice(0, most).map(describePort).join(', ')}${rest}`;
}

function describePort(balance: PortBalance): string {
  const { family, addresses, protocol, port } = balance;
  const vips = addresses.map((address) => formatEndpoint({ family, address, port })).join(' and ');
  const isUneven = [...(balance.parts?.values() ?? [])].some((part) => part !== 1);
  const shares = isUneven ? ', more to endpoints with fewer open connections' : '';
  return `${vips} ${protocol} to ${describeEnds(balance)}${shares}`;
}

function describeEnds({ isHere, relay, backends: { length: count } }: PortBalance): string {
  const nodes = relay?.nodes.size ?? 0;
  const elsewhere = `${nodes} other node${nodes === 1 ? '' : 's'}`;
  if (!isHere) return elsewhere;
  const here = count === 0 ? 'nobody' : `${count} endpoint${count === 1 ? '' : 's'}`;
  return nodes === 0 ? here : `${here} here and to ${elsewhere}`;
}
