import { type Transaction, type WritePlace } from '../../../lib/kernel/port.ts';

/** What a FakeKernel has ready for the next write: nothing but a list. */
export class FakeWriters {
  /** Where the next write is made quickly. */
  ready: readonly WritePlace[] = [];
  /** Of each transaction that was handed in, whether that had been made ready. */
  readonly wasReady: boolean[] = [];

  keepReady(places: readonly WritePlace[]): Promise<void> {
    this.ready = places;
    return Promise.resolve();
  }

  /** A write is handed in, which uses up what is ready for it. */
  protected use({ family, dialect }: Transaction): void {
    const others = this.ready.filter((place) => place.family !== family || place.dialect !== dialect);
    this.wasReady.push(others.length < this.ready.length);
    this.ready = others;
  }
}
