import type { Identity } from './identity.ts';
import type { WatchesTask } from './seat-watches.ts';

export interface Target {
  readonly host: string;
  readonly port: number;
}

/** A request that is lost is never answered; one that is late has waited for the machine. */
export const requestLimitMs = 10_000;

/** `count` new TLS connections, `concurrency` at a time. */
export interface RequestTask extends Target {
  readonly kind: 'requests';
  readonly count: number;
  readonly concurrency: number;
  /** What takes longer has failed; 10 s when left out: nothing but a lost request takes so long. */
  readonly limitMs?: number;
  /** Plain TCP connections instead, over which an apiserver of the miniature cluster says its name. */
  readonly isPlain?: boolean;
  /** The address of the place that they come from; its own choice when left out. */
  readonly from?: string;
}

/** Open connections that exchange bytes for a while. */
export interface HoldTask extends Target {
  readonly kind: 'hold';
  readonly count: number;
  /** At the longest, see `Seat.settle`. */
  readonly durationMs: number;
  /** How often each of them sends a byte; 100 ms when left out. At the end each of them sends one more. */
  readonly intervalMs?: number;
}

/** New TCP connections at a steady rate, closed as soon as they are there: what a second costs is the apiservers' share. */
export interface ConnectTask extends Target {
  readonly kind: 'connects';
  readonly perSecond: number;
  /** At the longest, see `Seat.settle`. */
  readonly durationMs: number;
  /** A TLS ClientHello in base64: a connection is there only when its answer is. A TCP connection is enough when left out. */
  readonly hello?: string;
  /** Whether a connection is there only when the stand-in of an apiserver has said its name. */
  readonly isNamed?: boolean;
  /** Whether the report says how long each connection took. */
  readonly isTimed?: boolean;
  /** What takes longer has failed; a second when left out. */
  readonly limitMs?: number;
  /** So long nothing may have failed before `Seat.settle` ends it; 2.5 s when left out. With 0 it ends at once. */
  readonly quietMs?: number;
  /** What takes longer is slow; a second when left out. */
  readonly slowMs?: number;
  /** From 1024 to 60999, where the local ports begin; when left out the seat goes on behind those that it had. */
  readonly firstLocalPort?: number;
  /** The address of the place that they come from; its own choice when left out. */
  readonly from?: string;
}

/** One watch of a ConfigMap in namespace `default`, kept up as client-go does. */
export interface WatchTask extends Target {
  readonly kind: 'watch';
  readonly identity: Identity;
  readonly object: string;
  /** The apiserver on which it shall begin, by its certificate's common name; any when left out. */
  readonly apiserver?: string;
  readonly durationMs: number;
}

/** A word to the task under way, see the methods of `Seat` of these names. */
export interface Word {
  readonly kind: 'settle' | 'speak';
}

/** Changes of a ConfigMap in namespace `default`, straight to whichever of the hosts answers. */
export interface WriteTask extends Pick<WatchTask, 'identity' | 'object' | 'durationMs'> {
  readonly kind: 'write';
  readonly hosts: readonly string[];
  readonly port: number;
  readonly intervalMs: number;
}

export type Task = RequestTask | HoldTask | ConnectTask | WatchTask | WatchesTask | WriteTask;

/** How many requests each apiserver answered, which client addresses they saw, and what failed. */
export interface RequestReport {
  readonly apiservers: Record<string, number>;
  readonly from: Record<string, number>;
  readonly errors: Record<string, number>;
}

/** How many connections were opened, how many bytes were sent and came back over them, and which errors they had. */
export interface HoldReport {
  opened: number;
  sent: number;
  echoes: number;
  /** To how many of them the other side said `bye`; absent where to none. */
  farewells?: number;
  readonly errors: Record<string, number>;
}

/** Connections by their time of start, of which only the failed ones are told apart. */
export interface ConnectReport {
  /** When it began, in milliseconds since the epoch. */
  readonly startedAt: number;
  readonly sent: number;
  /** How many connections each stand-in of an apiserver answered, by the name that it said. */
  readonly apiservers: Readonly<Record<string, number>>;
  readonly failures: { readonly atMs: number; readonly error: string; readonly isConnected: boolean }[];
  /** How long each took that was there in the end; nothing where it was not asked for. */
  readonly tookMs?: readonly number[];
  /** When those were started that were there in the end, but took more than `slowMs`. */
  readonly slowAtMs: readonly number[];
  /** How many SYNs all clients at this place sent again meanwhile: nothing had answered for a second. */
  readonly resentSyns: number;
  /** Whether no such connection and no failure came to light in the last `quietMs`, and none hangs. */
  readonly isQuiet: boolean;
}

export interface WatchReport {
  /** When it began, in milliseconds since the epoch. */
  readonly startedAt: number;
  readonly eventsAtMs: readonly number[];
  readonly endedAtMs: number;
  /** The apiservers it was on, one after another. */
  readonly apiservers: readonly string[];
  readonly errors: Record<string, number>;
}
