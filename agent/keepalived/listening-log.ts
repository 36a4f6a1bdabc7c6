import { type Logger } from '../../lib/telemetry/logger.ts';
import { type ListeningListener } from './judge-serving.ts';

/** Says in the log that it cannot be known what listens here, once while that lasts. */
export class ListeningLog implements ListeningListener {
  readonly #logger: Logger;
  #isRead = true;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  listeningRead(isRead: boolean): void {
    const isNews = !isRead && this.#isRead;
    this.#isRead = isRead;
    if (!isNews) return;
    this.#logger.warn(
      "vipnat cannot read the listening ports (/proc/net/tcp). It assumes that a process listens on the VIP's port",
    );
  }
}
