import type { TrackFile } from '../../../lib/keepalived/write.ts';
import type { VipnatError } from '../../../lib/errors.ts';

/** A track file that remembers all that was written, and fails where told to. */
export class FakeTrackFile implements TrackFile {
  readonly location = '/run/vipnat/keepalived/serving';
  readonly values: number[] = [];
  /** What every attempt fails with while it is set. */
  problem: VipnatError | null = null;
  attempts = 0;

  /** What is seen of keepalived. */
  guard: Awaited<ReturnType<TrackFile['view']>> = { isWatched: null };
  readonly view = () => Promise.resolve(this.guard);

  /** What is in it: others write, too. */
  content: number | null = null;

  read(): Promise<boolean | null> {
    return Promise.resolve(this.content === null ? null : this.content === 0);
  }

  write(value: number): Promise<void> {
    this.attempts += 1;
    if (this.problem !== null) return Promise.reject(this.problem);
    this.values.push(value);
    this.content = value;
    return Promise.resolve();
  }
}
