/**
 * What is to be done to a keepalived.conf that somebody wrote.
 *
 * Goal: whoever pastes a remedy on one master changes nothing by which masters hear each other.
 * Tension: an instance of another virtual_router_id, authentication, version or list of peers takes the VIP while the others
 * hold it; and what the others' files say cannot be seen from here.
 * Compromise: what goes into such a file is printed as comments that say where. Only the test and the reload are commands.
 * A whole file is printed only where none is, and nobody holds the VIP.
 */
import { dirname } from 'node:path';
import { findWire, keepalivedName } from '../../../lib/keepalived/find.ts';
import { type HostProcess } from '../../../lib/kernel/host/processes.ts';
import { quoteWords } from '../../../lib/text/shell-words.ts';
import { listTmpfilesLines, locateServingFile } from '../../../lib/keepalived/serving-file.ts';
import { listInstanceNames } from './instances.ts';
import { findUnit } from './remedies.ts';

/** The file that is to be changed, and who reads it. */
export interface ForeignFile {
  readonly path: string;
  /** It and all that it includes. */
  readonly files: readonly string[];
  /** With what it includes in its place. */
  readonly text: string;
  readonly processes: readonly HostProcess[];
}

/** Has keepalived follow the agent's word. */
export function trackServing(file: ForeignFile, addresses: readonly string[], runDir: string): string[] {
  const names = addresses.flatMap((address) => listInstanceNames(file.text, address));
  const name = /\btrack_file\s+serving\b/.test(file.text) ? 'vipnat-serving' : 'serving';
  return [
    `# in ${nameFiles(file)}, before the first vrrp_instance:`,
    `#   track_file ${name} {`,
    `#     file "${locateServingFile(runDir)}"`,
    '#     weight 0',
    '#     init_file 0',
    '#   }',
    ...[...new Set(names)].flatMap((instance) => [
      `# in vrrp_instance ${quoteWords([instance])}, or in its track_file if it has one:`,
      '#   track_file {',
      `#     ${name}`,
      '#   }',
    ]),
    ...reload(file, runDir),
  ];
}

/** Gives it an instance with an address, as the other masters have it. */
export function addInstance(file: ForeignFile, address: string, flags: string, runDir: string): string[] {
  const { masters, advertSeconds } = findWire(file.text);
  // Masters go on to reach each other as before: one that changed to multicast alone would hear nobody.
  const wire = [
    ...(masters.length === 0 ? [] : [`--peers=${masters.join(',')}`]),
    ...(advertSeconds === null ? [] : [`--advert=${Math.round(advertSeconds * 1000)}ms`]),
  ];
  return [
    ...copyInstance(address, file.path),
    '# only if no master has one: copy the vrrp_instance that this command prints, and the track_file before it',
    `vipnat keepalived ${[flags, ...wire].join(' ')}`,
    ...reload(file, runDir),
  ];
}

/** Where another master has an instance already. */
export function copyInstance(address: string, path: string): string[] {
  return [
    `# copy the vrrp_instance with ${address} from another master's file into ${quoteWords([path])}`,
    '# change its interface, its own unicast address and its priority. Everything else is the same on every master:',
    '# a master with another virtual_router_id, authentication, version or peers takes the VIP too',
  ];
}

/** Gives every master another virtual_router_id. One that has it alone holds the VIP beside the others. */
export function changeVrid(file: ForeignFile, address: string, vrid: { from: number; to: number }): string[] {
  const names = [...new Set(listInstanceNames(file.text, address))];
  return [
    '# a master with another virtual_router_id takes the VIP too. Therefore keep this order:',
    `# 1. on every master that does not hold ${address}, stop keepalived: systemctl stop keepalived`,
    `# 2. on every master, in ${nameFiles(file)}, vrrp_instance ${names.map((name) => quoteWords([name])).join(', ')}:`,
    `#      virtual_router_id ${vrid.to}`,
    `#    instead of ${vrid.from}`,
    `# 3. on the VIP holder: ${describeReload(file)}`,
    '# 4. on the other masters: systemctl start keepalived',
  ];
}

/** Which of several files has a block is for whoever opens them to see. */
function nameFiles({ path, files }: ForeignFile): string {
  const included = files.filter((file) => file !== path);
  const more = included.length === 0 ? '' : ` or a file that it includes (${quoteWords(included)})`;
  return `${quoteWords([path])}${more}`;
}

/** Has systemd make the track file before keepalived starts: without its folder, keepalived 2.2.7 does without it for good. */
export function makeAtBoot(runDir: string): string[] {
  return [
    '# to create the file at every boot: unless /etc/tmpfiles.d or /usr/lib/tmpfiles.d has a vipnat.conf, write',
    '# these lines to /etc/tmpfiles.d/vipnat-serving.conf:',
    ...listTmpfilesLines(runDir).map((line) => `#   ${line}`),
  ];
}

/** A reload keeps the VIP where it is, a restart moves it. keepalived 2.2.7 drops a track file whose folder is not there. */
function reload(file: ForeignFile, runDir: string): string[] {
  return [
    ...makeAtBoot(runDir),
    '# then test the file and reload keepalived. The VIP stays where it is',
    quoteWords(['mkdir', '-p', dirname(locateServingFile(runDir))]),
    describeReload(file),
  ];
}

function describeReload({ path, processes }: ForeignFile): string {
  const test = quoteWords(['keepalived', '--config-test', `--use-file=${path}`]);
  // The first one started the others, and is the one that takes signals.
  const [first] = processes
    .filter(({ name, isSurelyHere }) => name === keepalivedName && isSurelyHere)
    .sort((left, right) => left.pid - right.pid);
  const unit = first === undefined ? null : findUnit(first);
  if (first === undefined || unit !== null) return `${test} && systemctl reload ${unit ?? 'keepalived'}`;
  return `${test} && kill -HUP ${first.pid}`;
}
