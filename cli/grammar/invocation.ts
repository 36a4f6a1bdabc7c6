import { type Flags } from '../../config/flags.ts';
import { type DoctorOptions } from '../doctor/facts/options.ts';
import { type KeepalivedOptions } from '../generate/keepalived/options.ts';
import { type ManifestOptions } from '../generate/manifest/options.ts';
import {
  type BalancerOptions,
  type CheckOptions,
  type CleanupOptions,
  type ControllerOptions,
  type DeviceOptions,
  type DrainOptions,
  type PlanOptions,
  type RunOptions,
  type SeatsOptions,
  type ServicesOptions,
  type StatusOptions,
} from './command-context.ts';
import { type ColourChoice } from '../format/text/screen.ts';

/** A command that works by the configuration, with its own switches. */
export type ConfiguredCommand =
  | { readonly name: 'run'; readonly options: RunOptions }
  | { readonly name: 'plan'; readonly options: PlanOptions }
  | { readonly name: 'status'; readonly options: StatusOptions }
  | { readonly name: 'doctor'; readonly options: DoctorOptions }
  | { readonly name: 'check'; readonly options: CheckOptions }
  | { readonly name: 'cleanup'; readonly options: CleanupOptions }
  | { readonly name: 'drain'; readonly options: DrainOptions }
  | { readonly name: 'undrain'; readonly options: DrainOptions }
  | { readonly name: 'balancer'; readonly options: BalancerOptions }
  | { readonly name: 'seats'; readonly options: SeatsOptions }
  | { readonly name: 'services'; readonly options: ServicesOptions }
  | { readonly name: 'controller'; readonly options: ControllerOptions }
  | { readonly name: 'manifest'; readonly options: ManifestOptions }
  | { readonly name: 'keepalived'; readonly options: KeepalivedOptions };

/** A command that has to do with Services alone. */
export type ServicesCommand = Extract<
  ConfiguredCommand,
  { readonly name: 'balancer' | 'controller' | 'seats' | 'services' }
>;

/** Whether it is one of them. */
export function isAboutServices(command: ConfiguredCommand): command is ServicesCommand {
  return ['balancer', 'controller', 'seats', 'services'].includes(command.name);
}

/** What a command line asks for. */
export type Invocation = UnconfiguredInvocation | ConfiguredInvocation;

/** One that no option of the configuration is for. */
export type UnconfiguredInvocation =
  TextInvocation | CompletionInvocation | VridInvocation | DeviceInvocation;

/** Help or the version, to be printed as it is. */
export interface TextInvocation {
  readonly kind: 'text';
  readonly text: string;
}

/** `vipnat completion SHELL`: the word is not checked yet. */
export interface CompletionInvocation {
  readonly kind: 'completion';
  readonly shell: string;
}

/** `vipnat vrid VIP`: the text is not checked yet. */
export interface VridInvocation {
  readonly kind: 'vrid';
  readonly vip: string;
  readonly json: boolean;
}

/** `vipnat device`. */
export interface DeviceInvocation {
  readonly kind: 'device';
  readonly options: DeviceOptions;
  /** When to colour. */
  readonly colour: ColourChoice;
  /** What is wrong with the words, one line each. */
  readonly problems: readonly string[];
}

/** A command and what it is to be configured with. */
export interface ConfiguredInvocation {
  readonly kind: 'configured';
  readonly command: ConfiguredCommand;
  readonly flags: Flags;
  /** When to colour. */
  readonly colour: ColourChoice;
  /** What --config names. */
  readonly file: string | undefined;
  /** What is wrong with the words themselves, one line each; what the values come to is checked later. */
  readonly problems: readonly string[];
}

/** All commands, in the order in which help lists them. */
export const commandNames = [
  'run',
  'plan',
  'check',
  'status',
  'doctor',
  'drain',
  'undrain',
  'cleanup',
  'vrid',
  'manifest',
  'keepalived',
  'controller',
  'balancer',
  'services',
  'seats',
  'device',
  'completion',
  'help',
  'version',
] as const;
