import { dirname, join } from 'node:path';

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
