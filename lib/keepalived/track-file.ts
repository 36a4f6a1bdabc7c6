import { replaceFile } from '../files/replace-file.ts';
import { VipnatError } from '../text/errors.ts';

/** A file that keepalived tracks. */
export interface TrackFile {
  /** Where it is, for people. */
  readonly location: string;
  /**
   * Replaces the number in it, whole or not at all. One at a time.
   * @throws VipnatError TRACK_FILE_NOT_WRITTEN
   */
  write(value: number): Promise<void>;
}

/** A track file, whose folder is made when it is written. keepalived sees a rename into the folder as a change. */
export function createTrackFile(location: string): TrackFile {
  return {
    location,
    async write(value) {
      try {
        await replaceFile(location, `${value}\n`, { isFolderOurs: true });
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        const next = "keepalived keeps using the file's last value, and everything else works";
        throw new VipnatError(
          'TRACK_FILE_NOT_WRITTEN',
          `writing ${location} failed (${code ?? message}). ${next}`,
          { cause: error },
        );
      }
    },
  };
}
