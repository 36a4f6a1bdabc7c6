import {
  mkdirSync,
  writeFileSync,
  readdirSync,
  copyFileSync,
  symlinkSync,
  existsSync,
  rmSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

/** The machine's own folder of units: a node that boots systemd has those on its disk in this place. */
const machineUnits = '/usr/lib/systemd/system';

/** The node's folder of units, and that of systemd's settings, on its disk. */
const [unitsFolder, settingsFolder] = ['units', 'systemd'];

/** What systemd knows on a node beside its own targets and slices. */
export interface Units {
  /** Those of this machine's packages, by the names of their files. */
  readonly packaged: readonly string[];
  /** More files, by their paths in the folder of units. */
  readonly own: Readonly<Record<string, string>>;
  /** Those that systemd starts by itself. */
  readonly enabled: readonly string[];
}

/** Writes units onto a node's disk: from then on, the node boots systemd. What its services print is in the folder `logs`. */
export function writeUnits(disk: string, logs: string, { packaged, own, enabled }: Units): void {
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(disk, path)), { recursive: true });
    writeFileSync(join(disk, path), text);
  };
  const isNeeded = (unit: string) => unit.endsWith('.target') || unit.endsWith('.slice');
  mkdirSync(join(disk, unitsFolder), { recursive: true });
  for (const unit of [...readdirSync(machineUnits).filter(isNeeded), ...packaged])
    copyFileSync(join(machineUnits, unit), join(disk, unitsFolder, unit));
  for (const [path, text] of Object.entries(own)) write(join(unitsFolder, path), text);
  write(
    join(settingsFolder, 'system/service.d/logs.conf'),
    `[Service]\nStandardOutput=append:${logs}/%p.log\nStandardError=inherit\n`,
  );
  const wants = join(disk, settingsFolder, 'system/multi-user.target.wants');
  mkdirSync(wants, { recursive: true });
  for (const unit of enabled) symlinkSync(join(machineUnits, unit), join(wants, unit));
}

/** Whether a node with this disk boots systemd. */
export function hasUnits(disk: string): boolean {
  return existsSync(join(disk, unitsFolder));
}

/** Undoes writeUnits. */
export function removeUnits(disk: string): void {
  for (const folder of [unitsFolder, settingsFolder]) rmSync(join(disk, folder), { recursive: true });
}
