import { type EventRecorder } from '../../lib/telemetry/recorder.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type OtherHolderListener } from '../keepalived/other-holders.ts';

/** Says in the log, and by events, when another host answers for a VIP that this node holds, and when none does any more. */
export class OtherHolderLog implements OtherHolderListener {
  readonly #logger: Logger;
  readonly #events: EventRecorder;

  constructor(logger: Logger, events: EventRecorder) {
    this.#logger = logger;
    this.#events = events;
  }

  contested(address: string, mac: string): void {
    const line = `${address} is held twice: by this node, and by a host with MAC ${mac}, which answers ARP for it`;
    this.#logger.error(`${line}. Clients come to one or the other by chance: vipnat doctor says what to do`);
    this.#events.record('VipContested', line);
  }

  uncontested(address: string): void {
    const line = `${address} is held by this node alone again: no other host answers ARP for it`;
    this.#logger.info(line);
    this.#events.record('VipUncontested', line);
  }

  notAsked(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.#logger.debug(`who else has the virtual IP cannot be asked: ${reason}`);
  }
}
