import { type Family } from '../../lib/address/address.ts';
import { type NamespacedName } from '../../lib/kubernetes/api-object.ts';
import { type Config } from '../../config/config.ts';
import { type Environment } from '../../config/environment.ts';
import { type DoctorOptions } from '../doctor/facts/options.ts';
import { type KeepalivedOptions } from '../generate/keepalived/options.ts';
import { type OptionName } from '../../config/options.ts';
import { type ManifestOptions } from '../generate/manifest/options.ts';
import { type Screen } from '../format/text/screen.ts';

/**
 * What a command's handler is given: `run(context: RunContext): Promise<number>` in run.ts, and so on. The
 * number it answers is the exit status; a failure is thrown, as a VipnatError, and main prints it.
 */
export interface CommandContext<Options extends object = object> {
  /** Checked for this command: all but cleanup and balancer find at least one VIP. */
  readonly config: Config;
  /** The command's own switches. */
  readonly options: Options;
  /** What can be shown on standard output now: a terminal may change its size. */
  readonly screen: () => Screen;
  /** Writes to standard output as it is, no newline added. What the command was asked for, nothing else. */
  readonly stdout: (text: string) => void;
  /** Writes to standard error as it is, no newline added. Everything a person reads beside the answer. */
  readonly stderr: (text: string) => void;
}

/** `vipnat run`: at most one of the two is true. */
export interface RunOptions {
  /** Converge once and end. */
  readonly once: boolean;
  /** Print what would be written, once, and end. */
  readonly dryRun: boolean;
}

/** How `vipnat plan` prints for people and tools, the default first. */
export const planFormats = ['commands', 'restore', 'nft'] as const;

/** One of planFormats. */
export type PlanFormat = (typeof planFormats)[number];

/** `vipnat plan`. */
export interface PlanOptions {
  readonly format: PlanFormat;
  /** Print JSON; `format` does not count then. */
  readonly json: boolean;
  /** Print the part of one family only; null for all. */
  readonly family: Family | null;
  /** Read nothing: then `config.proxyMode` is not `auto`, and ClusterIP or endpoints are given where the way needs them. */
  readonly offline: boolean;
}

/** `vipnat cleanup`. */
export interface CleanupOptions {
  /** Print what would be removed, and write nothing. */
  readonly dryRun: boolean;
  /** Print JSON. */
  readonly json: boolean;
  /** A flag names virtual IPs, and only what is theirs goes. A variable or a file says what the agent balances, and does not count. */
  readonly isNarrowed: boolean;
}

/** `vipnat drain` and `vipnat undrain`. */
export interface DrainOptions {
  /** The node that is meant; null for this host. */
  readonly node: string | null;
  /** Drain also where no other apiserver takes new connections. False for undrain. */
  readonly force: boolean;
  /** Print what would be done, and change nothing. */
  readonly dryRun: boolean;
}

/** `vipnat balancer`. */
export interface BalancerOptions {
  /** Where vipnat's objects of the Kubernetes API are that belong to a namespace. */
  readonly namespace: string;
  /** At which other nodes reach this one, in canonical text; empty to find out. */
  readonly nodeAddresses: readonly string[];
  /** The TCP port at which other nodes are asked whether they live; 0 for not at all. */
  readonly probePort: number;
}

/** What `vipnat seats` does, the default first. */
export const seatsActions = ['list', 'drain', 'undrain', 'rebalance'] as const;

/** `vipnat seats`. */
export interface SeatsOptions {
  readonly action: (typeof seatsActions)[number];
  /** The node to drain; empty where none is. */
  readonly node: string;
  /** Where the balancers have their Leases. */
  readonly namespace: string;
  /** Print JSON. */
  readonly json: boolean;
}

/** What `vipnat device` does. */
export const deviceActions = ['configuration', 'conformance', 'list', 'plan', 'state'] as const;

/** `vipnat device`. */
export interface DeviceOptions {
  readonly action: (typeof deviceActions)[number];
  /** The file with its description. */
  readonly device: string;
  /** A name or a path; null for what the description says. */
  readonly driver: string | null;
  /** A file or a folder; null for variables of the environment. */
  readonly credentials: string | null;
  /** For `plan`: the file with the wanted balancer. */
  readonly balancer: string | null;
  /** For `configuration`: which unit, from 1 on; null for the only one. */
  readonly unit: number | null;
  /** For `conformance`: the names of the checks to run; none for all. */
  readonly only: readonly string[];
  /** For `conformance`: at which balancers may listen, three at least; null for any. */
  readonly ports: readonly number[] | null;
  /** For `conformance`: remove first what an earlier run has left. */
  readonly takesLeftovers: boolean;
  /** Print JSON. */
  readonly json: boolean;
}

/** What `device` of device.ts takes. */
export interface DeviceContext extends Omit<CommandContext<DeviceOptions>, 'config'> {
  /** Where credentials are unless a file is given. */
  readonly environment: Environment;
}

/** `vipnat services`. */
export interface ServicesOptions {
  /** The one to print; null for all. */
  readonly service: NamespacedName | null;
  /** Where the Leases of balancers and controllers are. */
  readonly namespace: string;
  /** Print JSON. */
  readonly json: boolean;
  /** Print again after so many milliseconds, until it is stopped; null prints once. */
  readonly watchMs: number | null;
}

/** `vipnat controller`. */
export interface ControllerOptions {
  /** Where the Leases are, as it was given: `findCommandProblems` says what is wrong with it. */
  readonly namespace: string;
  /** Whether Services without a class are served, too. */
  readonly isDefaultClass: boolean;
  /** The name of the device of Services without a class that have annotations of another controller; null for none. */
  readonly defaultDevice: string | null;
  /** Further types of readiness gates, as they were given: `findCommandProblems` says what is wrong with them. */
  readonly gates: readonly string[];
  /** Where the webhook is served, as it was given; null for nowhere. `findCommandProblems` says what is wrong with it. */
  readonly webhookPort: string | null;
}

/** `vipnat check`. */
export interface CheckOptions {
  /** Print JSON. */
  readonly json: boolean;
}

/** `vipnat status`. */
export interface StatusOptions {
  /** Print JSON. */
  readonly json: boolean;
  /** Print again after so many milliseconds, 100 to 3,600,000, until it is stopped; null prints once. */
  readonly watchMs: number | null;
}

/** What `status` of status.ts takes. */
export type StatusContext = CommandContext<StatusOptions>;

/** What `doctor` of doctor.ts takes. */
export interface DoctorContext extends CommandContext<DoctorOptions> {
  /** The options that the user gave: remedies repeat them. */
  readonly given: ReadonlySet<OptionName>;
}

/** What `run` of run.ts takes. */
export type RunContext = CommandContext<RunOptions>;

/** What `controller` of controller.ts takes. Its config may name no VIP. */
export type ControllerContext = CommandContext<ControllerOptions>;

/** What `plan` of plan.ts takes. */
export type PlanContext = CommandContext<PlanOptions>;

/** What `check` of check.ts takes. */
export interface CheckContext extends CommandContext<CheckOptions> {
  /** The options that the user gave: the command that repairs repeats them. */
  readonly given: ReadonlySet<OptionName>;
}

/** What `cleanup` of cleanup.ts takes. Its config may name no VIP: then everything of ours goes. */
export type CleanupContext = CommandContext<CleanupOptions>;

/** What `drain` and `undrain` of drain.ts take. Their config may name no VIP. */
export type DrainContext = CommandContext<DrainOptions>;

/** What `balancer` of balancer.ts takes. Its config may name no VIP. */
export interface BalancerContext extends CommandContext<BalancerOptions> {
  /** The options that the user gave. */
  readonly given: ReadonlySet<OptionName>;
}

/** What `seats` of seats.ts takes. Its config may name no VIP. */
export type SeatsContext = CommandContext<SeatsOptions>;

/** What `services` of services.ts takes. Its config may name no VIP. */
export type ServicesContext = CommandContext<ServicesOptions>;

/** What `keepalived` of keepalived.ts takes. */
export type KeepalivedContext = CommandContext<KeepalivedOptions>;

/** What `manifest` of manifest.ts takes. Files that its config names may be missing on this host. */
export interface ManifestContext extends CommandContext<ManifestOptions> {
  /** The options that the user gave, in whatever way. */
  readonly given: ReadonlySet<OptionName>;
}
