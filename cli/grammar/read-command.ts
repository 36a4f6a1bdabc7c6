import * as z from 'zod/mini';
import { families } from '../../lib/address/address.ts';
import { findNearest } from '../../config/nearest.ts';
import { quoteText } from '../../config/setting.ts';
import { duration } from '../../config/values.ts';
import { injectionMethods } from '../../lib/services/injection.ts';
import { type DoctorWords, readDoctorOptions } from '../doctor/facts/options.ts';
import { type KeepalivedWords, readKeepalivedOptions } from '../generate/keepalived/options.ts';
import { defaultNamespace, manifestKinds, servicesNamespace } from '../generate/manifest/options.ts';
import { planFormats } from './command-context.ts';
import { type ConfiguredCommand } from './invocation.ts';
import { type ColourChoice, colourChoices } from '../format/text/screen.ts';

/** What commander hands over: switches as booleans, the rest as texts. */
export interface Own extends KeepalivedWords, DoctorWords {
  /** The option of the configuration: cleanup is about these only. */
  readonly vip?: readonly string[];
  readonly once?: boolean;
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly format?: string;
  readonly family?: string;
  readonly offline?: boolean;
  /** True without a number of seconds. */
  readonly watch?: string | true;
  /** False for --no-color. */
  readonly color?: string | false;
  readonly image?: string;
  readonly namespace?: string;
  readonly leastPrivilege?: boolean;
  readonly keepalivedImage?: string;
  readonly directory?: string;
  readonly defaultClass?: boolean;
  readonly defaultDevice?: string;
  /** True without a method. */
  readonly injectGates?: string | true;
  readonly webhookPort?: string;
  readonly pool?: readonly string[];
  readonly gate?: readonly string[];
  readonly balancerListen?: string;
  readonly nodeAddress?: readonly string[];
  readonly nodeProbePort?: string;
  readonly config?: string;
}

/** A command, as far as its own words go. */
export interface Found {
  readonly command: ConfiguredCommand;
  /** How many words without an option belong to the command. */
  readonly wordCount?: number;
  /** What is wrong with the command's own words and switches. */
  readonly problems?: readonly string[];
}

/** `cleanup`. */
export function readCleanup({ dryRun = false, json = false, vip }: Own): Found {
  return { command: { name: 'cleanup', options: { dryRun, json, isNarrowed: vip !== undefined } } };
}

/** `drain`, whose word is a node. */
export function readDrain({ force = false, dryRun = false }: Own, [node]: readonly string[]): Found {
  return { command: { name: 'drain', options: { node: node ?? null, force, dryRun } }, wordCount: 1 };
}

/** `undrain`, likewise. */
export function readUndrain({ dryRun = false }: Own, [node]: readonly string[]): Found {
  return {
    command: { name: 'undrain', options: { node: node ?? null, force: false, dryRun } },
    wordCount: 1,
  };
}

/** `check`. */
export function readCheck({ json = false }: Own): Found {
  return { command: { name: 'check', options: { json } } };
}

/** `controller`. */
export function readController(own: Own): Found {
  const { namespace = servicesNamespace, webhookPort = null } = own;
  const options = { namespace, ...readServed(own), webhookPort };
  return { command: { name: 'controller', options } };
}

/** `run`. */
export function readRun({ once = false, dryRun = false }: Own): Found {
  return { command: { name: 'run', options: { once, dryRun } } };
}

/** `status`; an interval that is none is a problem. */
export function readStatus({ json = false, watch }: Own): Found {
  const { watchMs, problems } = readInterval(watch, defaultWatchMs);
  return { command: { name: 'status', options: { json, watchMs } }, problems };
}

/** From one screen of --watch to the next, unless a person says otherwise. */
const defaultWatchMs = 1000;

const interval = duration(100, 3_600_000);

/** What --watch says: a number without its unit is of seconds, and no number is the preset. */
export function readInterval(
  text: string | true | undefined,
  presetMs: number,
): { watchMs: number | null; problems: string[] } {
  if (text === undefined || text === true) {
    return { watchMs: text === undefined ? null : presetMs, problems: [] };
  }
  const result = z.safeParse(interval, /\d$/.test(text) ? `${text}s` : text);
  if (result.success) return { watchMs: result.data, problems: [] };
  const [{ message } = { message: '' }] = result.error.issues;
  const complaint = message.startsWith('is not between') ? message : 'is not a number of seconds';
  return { watchMs: null, problems: [`--watch ${quoteText(text)} ${complaint}. Example: --watch=5`] };
}

/** `doctor`. */
export function readDoctor(own: Own): Found {
  const { options, problems } = readDoctorOptions(own);
  return { command: { name: 'doctor', options }, problems };
}

/** `plan`; a format or a family that is none is a problem. */
export function readPlan({ format, json = false, family, offline = false }: Own): Found {
  const options = {
    format: planFormats.find((candidate) => candidate === format) ?? 'commands',
    json,
    family: families.find((candidate) => candidate === family) ?? null,
    offline,
  };
  const problems = [...checkFormat(format, json), ...checkFamily(family)];
  return { command: { name: 'plan', options }, problems };
}

function checkFormat(format: string | undefined, json: boolean): string[] {
  if (format === undefined) return [];
  if (format === 'json') return ['--format json is spelled --json. Example: vipnat plan --json'];
  if (json) return ['--json and --format exclude each other: each says how to print the plan. Leave one out'];
  if ((planFormats as readonly string[]).includes(format)) return [];
  const example = findNearest(format, planFormats) ?? 'restore';
  return [`--format ${quoteText(format)} is none of ${planFormats.join(', ')}. Example: --format ${example}`];
}

function checkFamily(family: string | undefined): string[] {
  if (family === undefined || (families as readonly string[]).includes(family)) return [];
  const example = family.includes('6') ? 'ipv6' : 'ipv4';
  return [`--family ${quoteText(family)} is none of ${families.join(', ')}. Example: --family ${example}`];
}

/** `keepalived`. */
export function readKeepalived(own: Own): Found {
  const { options, problems } = readKeepalivedOptions(own);
  return { command: { name: 'keepalived', options }, problems };
}

/** `manifest`, whose first word says of what. */
export function readManifest(own: Own, words: readonly string[]): Found {
  const { options: keepalived, problems } = readKeepalivedOptions(own);
  const [word] = words;
  const kind = manifestKinds.find((candidate) => candidate === word);
  const options = {
    ...readImages(own),
    ...readServicesOptions(own, kind),
    kind: kind ?? manifestKinds[0],
    keepalived,
  };
  const command = { name: 'manifest', options } as const;
  // Words beside an unknown option may be its values: then only the option is told.
  const isUnclear = words.some((other) => other.startsWith('-'));
  return kind !== undefined || isUnclear
    ? { command, wordCount: 1, problems }
    : { command, wordCount: 1, problems: [explainKind(word), ...problems] };
}

function readImages(own: Own) {
  const { image = null, leastPrivilege = false, keepalivedImage = null, directory = null } = own;
  return { image, leastPrivilege, keepalivedImage, directory };
}

function readServicesOptions(own: Own, kind: string | undefined) {
  const { namespace = kind === 'services' ? servicesNamespace : defaultNamespace } = own;
  const { pool: pools = [], balancerListen = null, injectGates = null, nodeProbePort = null } = own;
  const injection = injectGates === true ? injectionMethods[0] : injectGates;
  return { namespace, pools, ...readServed(own), injection, balancerListen, nodeProbePort };
}

/** Which Services and gates a controller takes besides its own. */
function readServed({ defaultClass: isDefaultClass = false, defaultDevice, gate: gates = [] }: Own) {
  return { isDefaultClass, defaultDevice: defaultDevice ?? null, gates };
}

function explainKind(word: string | undefined): string {
  const example = findNearest(word ?? '', manifestKinds) ?? manifestKinds[0];
  const what =
    word === undefined
      ? `manifest needs a kind: ${manifestKinds.join(', ')}`
      : `${quoteText(word)} is none of ${manifestKinds.join(', ')}`;
  return `${what}. Example: vipnat manifest ${example} --vip 10.0.0.50`;
}

/** `--color` and `--no-color`; a word that is no choice is a problem. */
export function readColour(text: string | false | undefined): { colour: ColourChoice; problems: string[] } {
  if (text === undefined) return { colour: 'auto', problems: [] };
  const colour = text === false ? 'never' : colourChoices.find((choice) => choice === text);
  if (colour !== undefined) return { colour, problems: [] };
  const problem = `--color ${quoteText(String(text))} is none of ${colourChoices.join(', ')}. Example: --color always`;
  return { colour: 'auto', problems: [problem] };
}
