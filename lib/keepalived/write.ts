import { join, dirname } from 'node:path';
import { type Clock, Rounds } from '../clock.ts';
import { VipnatError, describeCause } from '../errors.ts';
import { readIfThere, replaceFile, overwriteFile, type GuardView } from '../files.ts';

/** Where keepalived says what state its instances are in, in the folder of `--run-dir`: a named pipe that it makes itself. */
export function locateNotices(runDir: string): string {
  return join(runDir, 'keepalived', 'notify');
}

/** What an address's vrrp_instance is called. */
export function nameInstance(vip: string): string {
  return `vip-${vip}`;
}

/** The states of a vrrp_instance, as keepalived names them. */
export const vrrpStates = ['MASTER', 'BACKUP', 'FAULT', 'STOP'] as const;

/** One of them. `FAULT`: it may not hold the address, by the track file or as its interface is down. */
export type VrrpState = (typeof vrrpStates)[number];

/** What keepalived has said of one of its instances. */
export interface Notice {
  /** The vrrp_instance's name. */
  readonly instance: string;
  readonly state: VrrpState;
}

interface InstanceState {
  readonly state: VrrpState;
  /** By the Clock. */
  readonly since: number;
}

/** A line of keepalived's notify_fifo, see keepalived.conf(5): `INSTANCE "name" MASTER 100`. Null for other lines. */
export function parseNotice(line: string): Notice | null {
  const [, instance = '', word] = /^INSTANCE "([^"]+)" (\w+)(?: \d+)?$/.exec(line) ?? [];
  const state = vrrpStates.find((one) => one === word);
  return state === undefined ? null : { instance, state };
}

/** Where keepalived's lines come from: a read answers what is new, or null while no keepalived writes there. */
export interface NoticeSource {
  read(): Promise<string | null>;
  close(): Promise<void>;
}

/** A state is for people, who do not mind half a second. */
const pollMs = 500;

/** Longer than any line of keepalived's: its instances' names are words of a configuration file. */
const maxPendingLength = 4096;

/** Receives keepalived's notices of its instances' states, from whenever keepalived runs until it ends. */
export class NoticeReader {
  readonly #source: NoticeSource;
  readonly #clock: Clock;
  readonly #onChange: (notice: Notice, before: VrrpState | null) => void;
  readonly #states = new Map<string, InstanceState>();
  /** By the instance's name; empty where no keepalived sent a notice. */
  readonly states: ReadonlyMap<string, InstanceState> = this.#states;
  #pending = '';
  readonly #reads: Rounds;

  /** `onChange` is called with every state that differs from the one before; that is null for the first one received. */
  constructor(
    source: NoticeSource,
    clock: Clock,
    onChange: (notice: Notice, before: VrrpState | null) => void,
  ) {
    this.#source = source;
    this.#clock = clock;
    this.#onChange = onChange;
    this.#reads = new Rounds(clock, this.#read.bind(this), () => pollMs);
  }

  /** Begins to listen. Not to be called twice. */
  start(): void {
    this.#reads.plan(0);
  }

  /** Nothing is called back afterwards. */
  async stop(): Promise<void> {
    await this.#reads.stop();
    await this.#source.close();
  }

  async #read(): Promise<void> {
    const text = await this.#source.read();
    if (this.#reads.isStopped) return;
    if (text === null) {
      // It ended, or never ran: what it said last is no longer so.
      this.#pending = '';
      this.#states.clear();
    } else this.#receive(text);
  }

  #receive(text: string): void {
    const lines = `${this.#pending}${text}`.split('\n');
    this.#pending = (lines.pop() ?? '').slice(-maxPendingLength);
    for (const line of lines) {
      const notice = parseNotice(line);
      if (notice !== null) this.#note(notice);
    }
  }

  #note(notice: Notice): void {
    const { instance, state } = notice;
    const before = this.#states.get(instance)?.state ?? null;
    if (before === state) return;
    this.#states.set(instance, { state, since: this.#clock.now() });
    this.#onChange(notice, before);
  }
}

/**
 * Of the node that shall hold the address first. A backup waits three adverts and (256 - priority)/256 of one (RFC 9568, section
 * 6.1), so a high priority is a quick failover; above it is room for a person's own.
 */
const highestPriority = 250;

/** From one node to the next: of two that miss the same advert, one sends its own before the other's time is over. */
const step = 10;

/** A node's priority, 1 to 250, by its place among those that may hold an address: 0 is the first. Pure. */
export function toPriority(place: number): number {
  return Math.max(1, highestPriority - step * place);
}

/** One vrrp_instance. Every text in it is one word to keepalived's parser. */
export interface VrrpInstance {
  readonly name: string;
  /** The interface that carries the adverts. */
  readonly device: string;
  /** 1 to 255. */
  readonly vrid: number;
  /** 1 to 254. */
  readonly priority: number;
  /** In milliseconds, a multiple of 10. */
  readonly advertMs: number;
  /** How often its addresses are announced again, in seconds, where that is not as usual. */
  readonly refreshSeconds?: number;
  /** A command that keepalived runs whenever this node is without the addresses, also at its own start and end. */
  readonly onAbsence?: string;
  /** Whether it takes the addresses from a node of a lower priority that has them. */
  readonly preempts: boolean;
  /** Who gets the adverts, of the addresses' family; null for multicast. */
  readonly unicast: { readonly source: string; readonly peers: readonly string[] } | null;
  /** What adverts name: `10.0.0.50/32`. At least one, all of one family. */
  readonly addresses: readonly string[];
  /**
   * What is held besides, of any family: `10.0.0.51/32`, `fd00::51/128 dev eth1`. Adverts do not name it: nodes that differ
   * in it for a moment still agree on the node that holds the addresses.
   */
  readonly excluded: readonly string[];
  /** Interfaces besides `device` without which this node cannot hold the addresses. */
  readonly tracked: readonly string[];
}

/** All settings of a keepalived of vipnat's. */
interface KeepalivedConfiguration {
  /** The first line: by it a later version knows the file. */
  readonly mark: string;
  readonly routerId: string;
  readonly version: 2 | 3;
  /** Lines of global_defs that only this configuration has. */
  readonly globals: readonly string[];
  /** The named pipe by which keepalived says what state its instances are in: a path without blanks and quotes. */
  readonly notices: string;
  /** What says whether this node can serve: the path of a file that vipnat writes, a number or a shell's script; and its comment for a reader. */
  readonly guard: {
    readonly keyword: 'track_file' | 'track_script';
    readonly path: string;
    readonly comment: string;
  };
  readonly instances: readonly VrrpInstance[];
  /** Of the group all of whose instances one node holds; null for none. */
  readonly group: string | null;
}

/**
 * An address is announced again this often, by ARP or neighbour discovery: a switch or router that missed the first burst learns it again. Of the API's
 * virtual IPs, of pools without garpInterval, and of pairs of HAProxy.
 */
export const refreshSeconds = 60;

/** The text of keepalived.conf. Pure: equal input, equal bytes (I3). Every text in it was checked by who made the input. */
export function renderConfiguration(configuration: KeepalivedConfiguration): string {
  const { mark, instances, group } = configuration;
  const names = instances.map(({ name }) => name);
  const parts = [
    renderGlobals(configuration),
    // After a reload to no instance, keepalived 2.2.7 ends for a script that nobody uses, and leaves all addresses where they are.
    ...(instances.length === 0 ? [] : [renderGuard(configuration)]),
    ...instances.map((instance) => renderInstance(instance, configuration)),
    ...(group === null ? [] : [`\nvrrp_sync_group ${group} {\n${renderList('group', names)}}\n`]),
  ];
  return `${mark}\n${parts.join('')}`;
}

/**
 * How all of a node's addresses are announced: no burst has more packets than a switch or router takes. By default keepalived sends five for
 * each address immediately, and five more after 5 s. With any interval between two, keepalived 2.2.7 announces 350 addresses a second, and the last of
 * 1,000 waits for 3 s: so only who has more gets one. Lines of global_defs. Pure.
 */
export function listAnnouncementLines(addresses: number): string[] {
  const repeat = Math.max(1, Math.floor(mostAtOnce / addresses));
  return [
    `vrrp_garp_master_refresh ${refreshSeconds}`,
    ...(repeat >= usualRepeat ? [] : [`vrrp_garp_master_repeat ${repeat}`]),
    ...(addresses <= mostAtOnce ? [] : ['vrrp_garp_interval 0.001', 'vrrp_gna_interval 0.001']),
  ];
}

/** A burst takes some milliseconds. Routers limit what their processor gets to some thousand packets a second. */
const mostAtOnce = 1000;

/** keepalived's own, see keepalived.conf(5). */
const usualRepeat = 5;

/**
 * Without a router_id keepalived 2.2.7 resolves the host's name, and starts 10 s late where no DNS answers. Also where no script is
 * run, the pipe belongs to the script_user, for whom keepalived looks in any case and complains.
 */
function renderGlobals({ routerId, version, globals, notices, instances }: KeepalivedConfiguration): string {
  const count = instances.reduce(
    (sum, { addresses, excluded }) => sum + addresses.length + excluded.length,
    0,
  );
  return `global_defs {
  router_id ${routerId}
  vrrp_version ${version}
${[...listAnnouncementLines(count), ...globals].map((line) => `  ${line}\n`).join('')}  script_user root
  vrrp_notify_fifo ${notices}
}
`;
}

/**
 * Weight 0 means FAULT: a lower priority would not do, as with nopreempt no other node takes an address from a master
 * (seen with keepalived 2.2.7). A busy host may take long for a script, and somebody may empty its folder: that is no failure. keepalived 2.3.3 calls /bin/sh insecure, as
 * /bin is a link.
 */
function renderGuard({ guard: { keyword, path, comment } }: KeepalivedConfiguration): string {
  const command = `if test -e ${path}; then exec sh ${path}; fi`;
  const [block, lines] =
    keyword === 'track_file'
      ? ['track_file', [`file "${path}"`, 'weight 0', 'init_file 0']]
      : [
          'vrrp_script',
          [`script "/usr/bin/env sh -c '${command}'"`, 'interval 5', 'timeout 60', 'fall 2', 'rise 1'],
        ];
  return `\n# ${comment}\n${block} serving {\n${lines.map((line) => `  ${line}\n`).join('')}}\n`;
}

function renderInstance(instance: VrrpInstance, { guard }: KeepalivedConfiguration): string {
  const { name, device, vrid, priority, advertMs, preempts, unicast } = instance;
  const { addresses, excluded, tracked, refreshSeconds: refresh, onAbsence } = instance;
  const events = onAbsence === undefined ? [] : ['backup', 'fault', 'stop'];
  return `
vrrp_instance ${name} {
  state BACKUP
${preempts ? '' : '  nopreempt\n'}  interface ${device}
  virtual_router_id ${vrid}
  priority ${priority}
  advert_int ${advertMs / 1000}
${refresh === undefined ? '' : `  garp_master_refresh ${refresh}\n`}${events.map((event) => `  notify_${event} "${onAbsence}"\n`).join('')}${renderUnicast(unicast)}${renderList('virtual_ipaddress', addresses)}${renderList('virtual_ipaddress_excluded', excluded)}${renderList('track_interface', tracked)}${renderList(guard.keyword, ['serving'])}}
`;
}

function renderUnicast(unicast: VrrpInstance['unicast']): string {
  if (unicast === null) return '';
  return `  check_unicast_src
  unicast_src_ip ${unicast.source}
${renderList('unicast_peer', unicast.peers)}`;
}

/** An empty list is left out. */
function renderList(keyword: string, items: readonly string[]): string {
  if (items.length === 0) return '';
  return `  ${keyword} {\n${items.map((item) => `    ${item}\n`).join('')}  }\n`;
}

/** The files by which the balancer and its keepalived speak, by their names in the folder of `--run-dir`. */
const seatFileNames = {
  /** Its configuration: keepalived is started with this path, `--use-file`. */
  file: 'keepalived.conf',
  /** A configuration that keepalived refused: for people. */
  refusedFile: 'keepalived.conf.refused',
  /** What keepalived itself found wrong with a file that it was to read: for people. */
  checkLog: 'keepalived.check',
  /** Where keepalived says its pid, `--pid`. */
  pidFile: 'keepalived.pid',
  /** The script by which it looks whether the balancer lives. */
  checkBalancer: 'check-balancer',
  /** What the balancer writes all the time for that script. */
  beat: 'beat',
  /** What that script has seen last. */
  seen: 'seen',
  /** The named pipe by which it says what state its instances are in. It makes the pipe itself. */
  notices: 'notify',
};

/** Their whole paths. */
export type SeatFiles = Readonly<typeof seatFileNames>;

/** Those in the folder of `--run-dir`. */
export function locateSeatFiles(runDir: string): SeatFiles {
  const paths = Object.entries(seatFileNames).map(([file, name]) => [file, join(runDir, name)]);
  return Object.fromEntries(paths) as SeatFiles;
}

/**
 * Takes away the local routes that an agent left as it was killed (docs/adr/0020): all, or with `exact 10.0.0.50` those of a VIP. For a shell.
 * `lib/kernel/forwarding.ts` marks them with this number.
 */
export const removeRoutes = 'ip -4 route flush table local proto 118';

/** The file that says to keepalived whether this node can serve, in the folder of `--run-dir`. */
export function locateServingFile(runDir: string): string {
  return join(runDir, 'keepalived', 'serving');
}

/** Where keepalived.conf is for a keepalived in a static pod: next to what it tracks, where the host sees it too. */
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

/** Nobody reports that keepalived has started, or has read its configuration again. */
const guardMs = 60_000;

/** One that starts needs a moment until it follows. */
const confirmMs = 5000;

/** Remembers whether keepalived follows a file or runs a script. What is not known is no fault. */
export class GuardWatch {
  readonly #clock: Clock;
  readonly #read: () => Promise<GuardView>;
  readonly #onChange: (cause: string | null) => void;
  #isWatched: boolean | null = null;
  #nextAt = -Infinity;
  /** How many looks in a row have found that it does not. */
  #failures = 0;
  #isReported = false;
  #isStopped = false;

  /** `read` never rejects. `onChange` is called with the cause when two calls of `read` in a row find that keepalived does not follow, and with null when it does again. */
  constructor(clock: Clock, read: () => Promise<GuardView>, onChange: (cause: string | null) => void) {
    this.#clock = clock;
    this.#read = read;
    this.#onChange = onChange;
  }

  /** Null where it is not known. */
  get isWatched(): boolean | null {
    return this.#isWatched;
  }

  /** To be called often: reads immediately for the first time, and then once a minute. Returns immediately. */
  keep(): void {
    const now = this.#clock.now();
    if (this.#isStopped || now < this.#nextAt) return;
    this.#nextAt = now + guardMs;
    void this.#read().then(this.#note.bind(this));
  }

  /** Nothing is called back afterwards. */
  stop(): void {
    this.#isStopped = true;
  }

  #note(view: GuardView): void {
    const { isWatched, cause = '' } = view;
    this.#failures = isWatched === false ? this.#failures + 1 : 0;
    if (this.#isStopped || this.#failures === 1) {
      this.#nextAt = this.#clock.now() + confirmMs;
      return;
    }
    this.#isWatched = isWatched;
    if (isWatched === null || isWatched === !this.#isReported) return;
    this.#isReported = !isWatched;
    this.#onChange(isWatched ? null : cause);
  }
}

/** Notified of changes of the track file, and of writes to it that failed. */
export interface ServingListener {
  /** The file's value changed, or had to be written again; a first value that says that the node can serve is no change. */
  changed(isServing: boolean): void;
  /** The file could not be written, for the first time in a row. */
  notWritten(problem: VipnatError): void;
  /** keepalived does not follow the file, for this reason; null where it does again. */
  guardChanged(cause: string | null): void;
}

/** A folder that cannot be written is not tried at every sync. */
const retryMs = 60_000;

/** Tells keepalived whether this node can serve, whenever that has changed. */
export class ServingKeeper {
  readonly #file: TrackFile;
  readonly #clock: Clock;
  readonly #report: ServingListener;
  readonly #guard: GuardWatch;
  #wanted = true;
  /** The value in the file as last seen; null before that, and where there is none. */
  #written: boolean | null = null;
  #reported = true;
  #problem: VipnatError | null = null;
  #nextTry = -Infinity;
  #writing: Promise<void> | null = null;

  constructor(file: TrackFile, clock: Clock, report: ServingListener) {
    this.#file = file;
    this.#clock = clock;
    this.#report = report;
    this.#guard = new GuardWatch(clock, file.view, (cause) => {
      report.guardChanged(cause);
    });
  }

  /**
   * The state wanted last, whether the file has it, why the last write failed, and whether keepalived follows the file: null where that is
   * not known.
   */
  get state(): {
    readonly isServing: boolean;
    readonly isReported: boolean;
    readonly problem: VipnatError | null;
    readonly isWatched: boolean | null;
  } {
    const { isWatched } = this.#guard;
    const isReported = this.#written === this.#wanted;
    return { isServing: this.#wanted, isReported, problem: this.#problem, isWatched };
  }

  /** To be called after every sync. Returns immediately. */
  keep(isServing: boolean): void {
    this.#guard.keep();
    this.#wanted = isServing;
    if (this.#writing !== null || this.#clock.now() < this.#nextTry) return;
    this.#writing = this.#write().finally(() => (this.#writing = null));
  }

  /**
   * Ends when the file says that this node can serve: nobody judges that any more. Also where nothing was written, as an
   * agent that was killed before may have left the contrary there (docs/design.md). Of a host whose VIPs are to leave it, the file stays as it is.
   */
  async release(isLeaving: boolean): Promise<void> {
    this.#guard.stop();
    await this.#writing;
    if (isLeaving) return;
    this.#nextTry = -Infinity;
    this.keep(true);
    await this.#writing;
  }

  /** Until what was wanted last is there, or it fails. Others may have removed the file or written it: keepalived goes by that. */
  async #write(): Promise<void> {
    try {
      const before = this.#written;
      this.#written = await this.#file.read();
      let isLost = before !== null && this.#written !== before;
      do {
        const isServing = this.#wanted;
        // With weight 0, whatever is not 0 is a fault.
        if (this.#written !== isServing) await this.#file.write(isServing ? 0 : 1);
        this.#written = isServing;
        if (isLost || isServing !== this.#reported) this.#report.changed(isServing);
        [isLost, this.#reported] = [false, isServing];
      } while (this.#reported !== this.#wanted);
      this.#problem = null;
    } catch (error) {
      if (!(error instanceof VipnatError)) throw error;
      if (this.#problem === null) this.#report.notWritten(error);
      this.#problem = error;
      this.#nextTry = this.#clock.now() + retryMs;
    }
  }
}

/** A file that keepalived tracks. */
export interface TrackFile {
  /** Where it is, for people. */
  readonly location: string;
  /** Whether keepalived follows it. Never rejects. */
  readonly view: () => Promise<GuardView>;
  /** Whether the number in it is 0; null where there is none, or it cannot be read. Never rejects. */
  read(): Promise<boolean | null>;
  /**
   * Replaces the number in it, whole or not at all. One at a time.
   * @throws VipnatError TRACK_FILE_NOT_WRITTEN
   */
  write(value: number): Promise<void>;
}

/** A track file, whose folder is made when it is written. keepalived sees a rename into the folder as a change. */
export function createTrackFile(location: string, view: TrackFile['view']): TrackFile {
  return {
    location,
    view,
    async read() {
      const text = await readIfThere(location, { refusesLink: true }).catch(() => null);
      return text === null || text.trim() === '' ? null : Number(text) === 0;
    },
    async write(value) {
      const text = `${value}\n`;
      try {
        await replaceFile(location, text, { isOwnFolder: true }).catch(async (error: unknown) => {
          // A full disk has no place for another file, and one byte in this one needs none.
          if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
          await overwriteFile(location, text);
        });
      } catch (error) {
        const next = "keepalived keeps using the file's last value, and everything else works";
        const message = `writing ${location} failed (${describeCause(error)}). ${next}`;
        throw new VipnatError('TRACK_FILE_NOT_WRITTEN', message, { cause: error });
      }
    },
  };
}
