import type { DrainPorts } from '../../../agent/drain.ts';
import type { VipnatError } from '../../../lib/errors.ts';

/** The drain of a host in memory: what its state folder says, and its rule. */
export class FakeDrain implements Pick<DrainPorts, 'store' | 'rule'> {
  since: Date | null = null;
  /** What it says of the virtual IPs. */
  vipStaysSince: Date | null = null;
  /** Why nothing can be added to it, or null. */
  readOnly: VipnatError | null = null;
  /** The ports at which drain checks are refused; null for a table that somebody has edited. */
  ports: readonly number[] | null = [];
  /** Why neither can be read now, or null. */
  problem: VipnatError | null = null;
  reads = 0;
  readonly written: (readonly number[])[] = [];

  readonly store = {
    load: () => {
      const { since, vipStaysSince } = this;
      return this.#answer(() => (since === null ? null : { since, vipStaysSince }));
    },
    addVipStays: (at: Date) => {
      if (this.readOnly !== null) return Promise.reject(this.readOnly);
      return this.#answer(() => {
        if (this.since !== null) this.vipStaysSince = at;
      });
    },
  };

  readonly rule = {
    read: () => {
      this.reads += 1;
      return this.#answer(() => this.ports);
    },
    write: (ports: readonly number[]) => {
      this.written.push(ports);
      return this.#answer(() => {
        this.ports = ports;
      });
    },
  };

  #answer<T>(find: () => T): Promise<T> {
    return this.problem === null ? Promise.resolve(find()) : Promise.reject(this.problem);
  }
}
