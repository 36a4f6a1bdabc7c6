import { sortEndpoints } from '../lib/address/endpoint.ts';
import { fitAgentSettings } from './agent-settings.ts';
import { type Config } from './config.ts';
import { findConflicts } from './conflicts.ts';
import { type Environment, readEnvironment } from './environment.ts';
import { type Flags, readFlags } from './flags.ts';
import { findNearest } from './nearest.ts';
import { describeOption, listChoices, type OptionName, optionNames, schema, type Values } from './options.ts';
import {
  findLine,
  formatSource,
  nameIn,
  type Problem,
  quoteText,
  type Setting,
  type Settings,
  type SourceReading,
} from './setting.ts';

/** Where the configuration comes from. */
export interface ConfigSources {
  readonly flags: Flags;
  readonly environment: Environment;
  /** The file that --config or VIPNAT_CONFIG names. */
  readonly file: string | undefined;
  /** Whether it is for another host: then files that it names are not looked for on this one. False by default. */
  readonly isForElsewhere?: boolean;
  /** The running agent's settings: used for options that no other source gives. */
  readonly agent?: Settings;
}

/** What the sources come to. The configuration counts only when there are no problems. */
export interface ConfigReading {
  readonly config: Config;
  /**
   * All problems, one line each, without `vipnat: ` in front: unknown variables, then the file's in the order of its lines,
   * then those of flags and variables in the order of the options.
   */
  readonly problems: readonly string[];
  /** Options whose value is not known because of one of the problems; config has their defaults. */
  readonly unreadable: ReadonlySet<OptionName>;
  /** Options that a flag, a variable or the file gives, be it with their default. */
  readonly given: ReadonlySet<OptionName>;
}

/** Reads and checks the configuration. A flag counts before a variable, a variable before the file, that before the default. */
export async function readConfig(sources: ConfigSources): Promise<ConfigReading> {
  const { flags, environment, file, isForElsewhere = false, agent = new Map() } = sources;
  const fromEnvironment = readEnvironment(environment);
  const fromFile = await readFile(file);
  const own = new Map([...fromFile.settings, ...fromEnvironment.settings, ...readFlags(flags)]);
  const settings = new Map([...fitAgentSettings(agent, own), ...own]);
  const { values, problems, unreadable } = checkValues(settings);
  const isFileLost = fromFile.problems.length > 0 && fromFile.settings.size === 0;
  const lost = isFileLost ? optionNames.filter((name) => !settings.has(name)) : [];
  return {
    config: toConfig(values),
    problems: [
      ...fromEnvironment.problems.map(({ text }) => text),
      ...sortProblems([
        ...fromFile.problems,
        ...problems,
        ...findConflicts(values, settings, isForElsewhere),
      ]),
    ],
    unreadable: new Set([...unreadable, ...lost]),
    given: new Set(optionNames.filter((name) => own.has(name))),
  };
}

/** The file's first, by line. Those of one line, and the others, keep their order. */
function sortProblems(problems: readonly Problem[]): string[] {
  const places = problems.map(({ text, line }) => ({ text, place: line ?? Infinity }));
  return places
    .sort((one, other) => (one.place === other.place ? 0 : one.place - other.place))
    .map(({ text }) => text);
}

/** The YAML parser is loaded only for those who have a file: it takes longer than all the rest. */
async function readFile(file: string | undefined): Promise<SourceReading> {
  if (file === undefined) return { settings: new Map(), problems: [] };
  const { readConfigFile } = await import('./file.ts');
  return await readConfigFile(file);
}

interface Checked {
  readonly values: Values;
  readonly problems: readonly Problem[];
  readonly unreadable: readonly OptionName[];
}

/** Values that cannot be read give way to their defaults, so that the others can still be held against one another. */
function checkValues(settings: ReadonlyMap<string, Setting>): Checked {
  const raw = Object.fromEntries([...settings].map(([name, { value }]) => [name, value]));
  const result = schema.safeParse(raw);
  if (result.success) return { values: result.data, problems: [], unreadable: [] };
  const unreadable = [...new Set(result.error.issues.map(({ path }) => path[0] as OptionName))];
  const readable = Object.entries(raw).filter(([name]) => !unreadable.includes(name as OptionName));
  const problems = result.error.issues.map(({ path, message }) => {
    const name = path[0] as OptionName;
    const index = typeof path[1] === 'number' ? path[1] : undefined;
    const setting = settings.get(name);
    return { text: formatProblem(name, setting, { index, message }), line: findLine(setting, index) };
  });
  return { values: schema.parse(Object.fromEntries(readable)), problems, unreadable };
}

interface Issue {
  /** Which element of a list it is about. */
  readonly index: number | undefined;
  readonly message: string;
}

function formatProblem(name: OptionName, setting: Setting | undefined, { index, message }: Issue): string {
  const value = readElement(setting, index);
  const text = typeof value === 'string' ? ` ${quoteText(value)}` : '';
  const nearest = typeof value === 'string' ? findNearest(value, listChoices(name)) : null;
  const called = nameIn(name, setting);
  const colon = findLine(setting, index) === null ? '' : ':';
  const from = formatSource(setting?.from(index) ?? '');
  return `${called}${text} ${message}${from}. Example: ${called}${colon} ${nearest ?? describeOption(name).example}`;
}

function readElement(setting: Setting | undefined, index: number | undefined): unknown {
  return index === undefined ? setting?.value : (setting?.value as readonly unknown[] | undefined)?.[index];
}

function toConfig({ vip, clusterIp, endpoints, probeInterval, probeTimeout, ...rest }: Values): Config {
  return {
    ...rest,
    probeIntervalMs: probeInterval,
    probeTimeoutMs: probeTimeout,
    vips: vip,
    clusterIps: Object.fromEntries(clusterIp.map(({ family, text }) => [family, text])),
    endpoints: sortEndpoints(endpoints),
  };
}
