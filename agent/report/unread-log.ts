import { type Assessment } from '../decide/assess.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type LoopObserver } from './loop-observer.ts';
import { describeUnread } from '../../lib/kernel/real/unread.ts';

/** Says in the log what of the rules cannot be read, in one line whenever that changes. */
export class UnreadLog implements Partial<LoopObserver> {
  readonly #logger: Logger;
  #said = '';

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  looked({ observation }: Pick<Assessment, 'observation'>): void {
    const found = describeUnread(observation.unread);
    const text = found.map((one) => one.text).join(' ');
    if (text === this.#said) return;
    this.#said = text;
    const [first] = found;
    if (first === undefined) this.#logger.info('vipnat can read all rules again');
    else this.#logger.warn(text, { code: first.code });
  }
}
