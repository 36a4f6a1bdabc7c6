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
    const line = `two hosts hold ${address}: this node, and the host with MAC ${mac}, which answers ARP for it`;
    this.#logger.error(`${line}. Clients reach either host at random. vipnat doctor says what to do`);
    this.#events.record('VipContested', line);
  }

  uncontested(address: string): void {
    const line = `only this node holds ${address} again: no other host answers ARP for it`;
    this.#logger.info(line);
    this.#events.record('VipUncontested', line);
  }

  notAsked(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.#logger.debug(`vipnat cannot ask whether another host holds the virtual IP: ${reason}`);
  }
}
