import { dirname, join } from 'node:path';
import { VipnatError } from '../../lib/text/errors.ts';
import { replaceFile } from '../../lib/files/replace-file.ts';

/** Where keepalived is told whether this node can serve, in the folder of `--run-dir`. */
export function locateServingFile(runDir: string): string {
  return join(runDir, 'keepalived', 'serving');
}

/** Where keepalived.conf is for a keepalived in a static pod: beside what it tracks, where the host sees it too. */
export function locateKeepalivedFile(runDir: string): string {
  return join(dirname(locateServingFile(runDir)), 'keepalived.conf');
}

/** Lines for tmpfiles.d by which systemd makes that file at boot, before any service. What is there already stays as it is. Pure. */
export function listTmpfilesLines(runDir: string): string[] {
  const file = locateServingFile(runDir);
  return [
    ...[dirname(dirname(file)), dirname(file)].map(toTmpfilesFolder),
    // 0: this node can serve.
    `f ${file} 0644 root root - 0`,
  ];
}

/** A line for tmpfiles.d by which systemd makes a folder at boot. Pure. */
export function toTmpfilesFolder(folder: string): string {
  return `d ${folder.replace(/\/$/, '')} 0755 root root -`;
}

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
