import { type Cancel, type Clock } from '../control/clock.ts';

/** The states of a vrrp_instance, as keepalived names them. */
export const vrrpStates = ['MASTER', 'BACKUP', 'FAULT', 'STOP'] as const;

/** One of them. `FAULT`: it may not hold the address, by the track file or as its interface is down. */
export type VrrpState = (typeof vrrpStates)[number];

/** What keepalived has said of one of its instances. */
export interface Notice {
  /** The vrrp_instance's name. */
  readonly instance: string;
  readonly state: VrrpState;
}

/** An instance as it was heard of last. */
export interface InstanceState {
  readonly state: VrrpState;
  /** By the Clock. */
  readonly since: number;
}

/** A line of keepalived's notify_fifo, see keepalived.conf(5): `INSTANCE "name" MASTER 100`. Null for other lines. */
export function parseNotice(line: string): Notice | null {
  const [, instance = '', word] = /^INSTANCE "([^"]+)" (\w+)(?: \d+)?$/.exec(line) ?? [];
  const state = vrrpStates.find((one) => one === word);
  return state === undefined ? null : { instance, state };
}

/** Where keepalived's lines come from: a read answers what is new, or null while no keepalived writes there. */
export interface NoticeSource {
  read(): Promise<string | null>;
  close(): Promise<void>;
}

/** A state is for people, who do not mind half a second. */
const pollMs = 500;

/** Longer than any line of keepalived's: its instances' names are words of a configuration file. */
const maxPendingLength = 4096;

/** Hears what state keepalived's instances are in, from whenever keepalived runs until it ends. */
export class NoticeReader {
  readonly #source: NoticeSource;
  readonly #clock: Clock;
  readonly #onChange: (notice: Notice, before: VrrpState | null) => void;
  readonly #states = new Map<string, InstanceState>();
  #pending = '';
  #cancel: Cancel | null = null;
  #reading: Promise<void> | null = null;

  /** `onChange` is told of every state that differs from the one before; that is null for the first one heard. */
  constructor(
    source: NoticeSource,
    clock: Clock,
    onChange: (notice: Notice, before: VrrpState | null) => void,
  ) {
    this.#source = source;
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** By the instance's name; empty where no keepalived was heard. */
  get states(): ReadonlyMap<string, InstanceState> {
    return this.#states;
  }

  /** Begins to listen. Not to be called twice. */
  start(): void {
    this.#cancel = this.#clock.schedule(0, () => {
      this.#reading = this.#read();
    });
  }

  /** Nothing is called back afterwards. */
  async stop(): Promise<void> {
    this.#cancel?.();
    this.#cancel = null;
    await this.#reading;
    await this.#source.close();
  }

  async #read(): Promise<void> {
    const text = await this.#source.read();
    if (this.#cancel === null) return;
    if (text === null) this.#forget();
    else this.#hear(text);
    this.#cancel = this.#clock.schedule(pollMs, () => {
      this.#reading = this.#read();
    });
  }

  #hear(text: string): void {
    const lines = `${this.#pending}${text}`.split('\n');
    this.#pending = (lines.pop() ?? '').slice(-maxPendingLength);
    for (const line of lines) {
      const notice = parseNotice(line);
      if (notice !== null) this.#note(notice);
    }
  }

  #note(notice: Notice): void {
    const { instance, state } = notice;
    const before = this.#states.get(instance)?.state ?? null;
    if (before === state) return;
    this.#states.set(instance, { state, since: this.#clock.now() });
    this.#onChange(notice, before);
  }

  /** It ended, or never ran: what it said last is no longer so. */
  #forget(): void {
    this.#pending = '';
    this.#states.clear();
  }
}
