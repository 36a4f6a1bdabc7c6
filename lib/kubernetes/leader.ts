import type { ObjectClient, ObjectWrite, WriteAnswer } from './writes.ts';
import { type Clock, type Random, type Cancel, Rounds, toMicroTime } from '../clock.ts';
import { type NamespacedName, objectVersion } from './client.ts';
import * as z from 'zod/mini';

/**
 * Who of several processes may write: the one whose name a Lease has, as client-go's leader election does it.
 *
 * Goal: at any moment one process writes at most, and another continues soon after it has gone.
 * Tension: a process can be held up for any time between two of its steps, answers get lost, and dates of hosts differ.
 * Compromise: a leader counts from before its renewal was sent, and others from when they first saw it; each by its own clock, never
 * by a date. A leader begins no write later than `renewMs`, and each ends before `leaseMs` of the other processes are over. A process
 * whose clock did not run (a virtual machine that was paused) can be wrong: then versions of objects decide.
 */

interface LeaderOptions {
  readonly client: ObjectClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly lease: NamespacedName;
  /** Of this process, and of no other that ever was. */
  readonly identity: string;
  /** What it notes on the Lease while it leads: annotations, which stay when it leads no more. None by default. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** It leads from now on. */
  readonly onElected: () => void;
  /** It leads no more. What it has begun may last for `maxWriteMs`. */
  readonly onLost: () => void;
  /** Another one leads, as far as is known; empty while nobody does. */
  readonly onLeader: (leader: string) => void;
  /** The Lease could not be read or written; reported each time. */
  readonly onProblem: (problem: { readonly outcome: string; readonly detail: string }) => void;
}

/** client-go's defaults (LeaseDuration, RenewDeadline, RetryPeriod, JitterFactor) as kube-controller-manager has them. */
const leaseMs = 15_000;
const renewMs = 10_000;
const retryMs = 2000;
const jitter = 1.2;

/** A write that is begun at the last moment has ended a second before another process may lead. */
const maxWriteMs = 4000;

/** For how long a candidate waits for an answer. */
const answerMs = 5000;

/** Whoever ends does not wait longer for an API that hangs: others take over when the lease is over. */
const releaseMs = 1000;

const schema = z.object({
  metadata: z.object({ resourceVersion: objectVersion }),
  spec: z.nullish(
    z.object({
      holderIdentity: z.nullish(z.string()),
      leaseDurationSeconds: z.nullish(z.number()),
      leaseTransitions: z.nullish(z.number()),
    }),
  ),
});

type Lease = z.output<typeof schema>;

/** Takes part in an election from `start` to `stop`. */
export class LeaderElection {
  readonly #options: LeaderOptions;
  readonly #collection: string;
  readonly #path: string;
  /** The Lease as it was last seen to change, and when that was. */
  #observed: { readonly version: string; readonly at: number } | null = null;
  #leader: string | null = null;
  /** When the last renewal that was taken was sent; null while another leads. */
  #renewedAt: number | null = null;
  #cancelDeadline: Cancel = () => undefined;
  readonly #tries: Rounds;
  #begunAt = -Infinity;

  constructor(options: LeaderOptions) {
    this.#options = options;
    this.#tries = new Rounds(options.clock, this.#try.bind(this), this.#findDelay.bind(this));
    const { namespace, name } = options.lease;
    this.#collection = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
    this.#path = `${this.#collection}/${name}`;
  }

  /** Begins. Not to be called twice. */
  start(): void {
    this.#tries.plan(0);
  }

  /** How long a write may take that begins now; 0 while none may begin. */
  get writeMs(): number {
    if (this.#renewedAt === null) return 0;
    return this.#options.clock.now() < this.#renewedAt + renewMs ? maxWriteMs : 0;
  }

  /** Who leads, as far as is known; empty while nobody does, null before anything is known. */
  get leader(): string | null {
    return this.#leader;
  }

  /** Takes no further part. A leader gives the Lease back, so that another continues immediately; its own writes must have ended. */
  async stop(): Promise<void> {
    await this.#tries.stop();
    this.#cancelDeadline();
    if (this.#renewedAt === null || this.#observed === null) return;
    this.#renewedAt = null;
    const spec = { holderIdentity: '', leaseDurationSeconds: 1, renewTime: this.#now() };
    const write = this.#toChange('giving back', this.#observed.version, spec);
    await this.#options.client.write(write, releaseMs);
  }

  #findDelay(): number {
    const { clock, random } = this.#options;
    const waitMs = this.#renewedAt === null ? retryMs * (1 + random() * (jitter - 1)) : retryMs;
    return this.#begunAt + waitMs - clock.now();
  }

  /** Reads the Lease, and takes or renews it where that is allowed. */
  async #try(): Promise<void> {
    const { client, clock, lease, onProblem } = this.#options;
    this.#begunAt = clock.now();
    const read = { title: `reading Lease ${lease.name}`, path: this.#path, schema };
    const answer = await client.read(read, answerMs);
    if (answer.outcome === 'gone') {
      // One that somebody deleted may be one that another leads by.
      const isOver = this.#observed === null || clock.now() - this.#observed.at > leaseMs;
      if (isOver || this.#renewedAt !== null) await this.#take(this.#toCreation());
    } else if (answer.outcome !== 'found') onProblem(answer);
    else if (this.#isFree(answer.object)) await this.#take(this.#toTakeover(answer.object));
  }

  /** Whether this process may write its name into the Lease; one that has it already renews it. */
  #isFree({ metadata, spec }: Lease): boolean {
    const { clock, identity } = this.#options;
    if (this.#observed?.version !== metadata.resourceVersion)
      this.#observed = { version: metadata.resourceVersion, at: clock.now() };
    const leader = spec?.holderIdentity ?? '';
    if (leader === identity || leader === '') return true;
    const seconds = spec?.leaseDurationSeconds ?? leaseMs / 1000;
    const isOver = clock.now() - this.#observed.at > seconds * 1000;
    if (!isOver) this.#reportLeader(leader);
    // The name of another is the end of leading, whatever time is left.
    this.#lose();
    return isOver;
  }

  async #take(write: ObjectWrite): Promise<void> {
    const { client, clock, onProblem } = this.#options;
    const sentAt = clock.now();
    const answer = await client.write(write, answerMs);
    if (answer.outcome === 'taken') this.#keep(answer, sentAt);
    // Another was faster. The next check shows who.
    else if (answer.outcome !== 'conflict' && answer.outcome !== 'exists') onProblem(answer);
  }

  #keep({ version }: WriteAnswer, sentAt: number): void {
    const { clock, identity, onElected } = this.#options;
    const leftMs = sentAt + renewMs - clock.now();
    this.#observed = version === null ? null : { version, at: sentAt };
    // An answer that came too late is worth nothing.
    if (leftMs <= 0) return;
    const isNew = this.#renewedAt === null;
    this.#renewedAt = sentAt;
    this.#cancelDeadline();
    this.#cancelDeadline = clock.schedule(leftMs, () => {
      this.#lose();
    });
    this.#leader = identity;
    if (isNew && !this.#tries.isStopped) onElected();
  }

  #lose(): void {
    if (this.#renewedAt === null) return;
    this.#renewedAt = null;
    this.#cancelDeadline();
    if (!this.#tries.isStopped) this.#options.onLost();
  }

  #reportLeader(leader: string): void {
    if (this.#leader === leader) return;
    this.#leader = leader;
    this.#options.onLeader(leader);
  }

  #toCreation(): ObjectWrite {
    const { lease, annotations } = this.#options;
    return {
      title: `creating Lease ${lease.name}`,
      path: this.#collection,
      method: 'POST',
      body: {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { ...lease, annotations },
        spec: { ...this.#toSpec(), acquireTime: this.#now(), leaseTransitions: 0 },
      },
    };
  }

  #toTakeover({ metadata, spec }: Lease): ObjectWrite {
    const isOwn = spec?.holderIdentity === this.#options.identity;
    const transitions = (spec?.leaseTransitions ?? 0) + 1;
    const more = isOwn ? {} : { acquireTime: this.#now(), leaseTransitions: transitions };
    return this.#toChange('renewing', metadata.resourceVersion, { ...this.#toSpec(), ...more });
  }

  #toSpec(): object {
    const holderIdentity = this.#options.identity;
    return { holderIdentity, leaseDurationSeconds: leaseMs / 1000, renewTime: this.#now() };
  }

  #toChange(what: string, version: string, spec: object): ObjectWrite {
    const { lease, annotations } = this.#options;
    return {
      title: `${what} Lease ${lease.name}`,
      path: this.#path,
      method: 'PATCH',
      body: { metadata: { resourceVersion: version, annotations }, spec },
    };
  }

  /** For people: nobody reckons with it. */
  #now(): string {
    return toMicroTime(this.#options.clock.date());
  }
}
