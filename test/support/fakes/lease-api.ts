import type { Clock } from '../../../lib/clock.ts';
import type {
  ObjectClient,
  ObjectRead,
  ReadAnswer,
  WriteAnswer,
  ObjectWrite,
} from '../../../lib/kubernetes/writes.ts';

/** How one request goes: when it arrives, when its answer does; null for an answer that is lost. */
export interface Trip {
  readonly thereMs: number;
  readonly backMs: number | null;
}

interface LeaseBody {
  readonly metadata?: {
    readonly resourceVersion?: string;
    readonly annotations?: Readonly<Record<string, string | null>>;
  };
  readonly spec: Readonly<Record<string, unknown>>;
}

/** One Lease, as an apiserver keeps it. Requests that are late arrive all the same, as they do in a network. */
export class LeaseApi {
  readonly #clock: Clock;
  #version = 0;
  #spec: Readonly<Record<string, unknown>> | null = null;
  #annotations: Readonly<Record<string, string>> = {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** What the Lease says; null while there is none. */
  get spec(): Readonly<Record<string, unknown>> | null {
    return this.#spec;
  }

  get annotations(): Readonly<Record<string, string>> {
    return this.#annotations;
  }

  get writes(): number {
    return this.#version;
  }

  /** Somebody else writes it. */
  touch(): void {
    this.#version += 1;
  }

  /** Another version of vipnat, or somebody else, has noted this on it. */
  annotate(annotations: Readonly<Record<string, string>>): void {
    this.#version += 1;
    this.#annotations = { ...this.#annotations, ...annotations };
  }

  remove(): void {
    this.#spec = null;
    this.#annotations = {};
  }

  /** A client whose requests go as they are told, one after the other. One whose process was killed sends none. */
  connect(next: () => Trip, isKilled: () => boolean = () => false): ObjectClient {
    return {
      read: <T>(read: ObjectRead<T>, limitMs: number) =>
        this.#travel<ReadAnswer<T>>(next(), limitMs, () => this.#read(read), isKilled),
      write: (write, limitMs) =>
        this.#travel<WriteAnswer>(next(), limitMs, () => this.#write(write), isKilled),
    };
  }

  #travel<T>(
    { thereMs, backMs }: Trip,
    limitMs: number,
    serve: () => T,
    isKilled: () => boolean,
  ): Promise<T> {
    return new Promise((resolve) => {
      if (isKilled()) return;
      const cancel = this.#clock.schedule(limitMs, () => {
        resolve({ outcome: 'unreachable', detail: 'no answer', version: null } as T);
      });
      this.#clock.schedule(thereMs, () => {
        const answer = serve();
        if (backMs === null) return;
        this.#clock.schedule(backMs, () => {
          cancel();
          resolve(answer);
        });
      });
    });
  }

  #read<T>({ schema }: ObjectRead<T>): ReadAnswer<T> {
    if (this.#spec === null) return { outcome: 'gone' };
    const metadata = { resourceVersion: String(this.#version), annotations: this.#annotations };
    return { outcome: 'found', object: schema.parse({ metadata, spec: this.#spec }) };
  }

  #write({ method, body }: ObjectWrite): WriteAnswer {
    const { metadata, spec } = body as LeaseBody;
    const refuse = (outcome: WriteAnswer['outcome']): WriteAnswer => ({ outcome, detail: '', version: null });
    if (method === 'POST' && this.#spec !== null) return refuse('exists');
    if (method === 'PATCH' && this.#spec === null) return refuse('gone');
    if (method === 'PATCH' && metadata?.resourceVersion !== String(this.#version)) return refuse('conflict');
    this.#version += 1;
    this.#spec = { ...this.#spec, ...spec };
    const merged = { ...this.#annotations, ...metadata?.annotations };
    // A merge patch removes what is null.
    this.#annotations = Object.fromEntries(
      Object.entries(merged).flatMap(([name, text]) => (text === null ? [] : [[name, text]])),
    );
    return { outcome: 'taken', detail: '', version: String(this.#version) };
  }
}
