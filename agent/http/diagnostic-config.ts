import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { quoteWords } from '../../lib/text/shell-words.ts';
import { readAgentSettings } from '../../config/agent-settings.ts';
import { toArguments } from '../../config/arguments.ts';
import { type Config } from '../../config/config.ts';
import { type ConfigReading, type ConfigSources, readConfig } from '../../config/load.ts';
import { type OptionName } from '../../config/options.ts';
import { askAgentOptions, type OptionsWord, sharedNames } from './agent-options.ts';

/** A configuration for a diagnostic, and what a person has to know of where it is from. */
export interface DiagnosticReading {
  readonly reading: ConfigReading;
  /** Lines without a newline, for standard error. */
  readonly notes: readonly string[];
  /** Why the agent's configuration was not taken, to go on from `no virtual IP given, and`; null where it was. */
  readonly reason: string | null;
}

/** What a diagnostic makes of some of the agent's virtual IPs: `host` looks at all that the agent has, `given` at these. */
export type Scope = 'host' | 'given';

/**
 * Reads the configuration for a diagnostic: what nobody gives is what the running agent has. With the scope `host`,
 * virtual IPs that are all the agent's stand for its whole list: rules of its others are no difference.
 */
export async function readDiagnosticConfig(
  sources: ConfigSources,
  scope: Scope,
  ask: () => Promise<OptionsWord> = askAgentOptions,
): Promise<DiagnosticReading> {
  const word = await ask();
  const agent = word.kind === 'told' ? readAgentSettings(word.options) : null;
  if (word.kind !== 'told' || agent === null) {
    return { reading: await readConfig(sources), notes: [], reason: reasons[word.kind] };
  }
  const nothing = { flags: {}, environment: {}, file: undefined };
  const [narrow, theirs, defaults] = await Promise.all([
    readConfig({ ...sources, agent }),
    readConfig({ ...nothing, agent }),
    readConfig(nothing),
  ]);
  const whole = scope === 'host' ? await readWhole({ ...sources, agent }, narrow, theirs.config) : null;
  const reading = whole ?? narrow;
  const special = sharedNames.filter((name) => hasOther(name, theirs.config, defaults.config));
  const source = `the running agent (pid ${word.agent.pid}) has ${describe(theirs.config, special)}`;
  return {
    // Remedies repeat what makes this configuration, whoever gave it.
    reading: { ...reading, given: new Set([...reading.given, ...special]) },
    notes: [
      ...(narrow.given.has('vip') ? [] : [source]),
      ...(reading.config.vips.length > narrow.config.vips.length
        ? [`${source}, and all its virtual IPs are taken`]
        : []),
      ...describeDifferences(reading, theirs.config),
    ],
    reason: null,
  };
}

/** The same with all virtual IPs of the agent; null where one that is given is not the agent's, or the others do not fit. */
async function readWhole(
  sources: ConfigSources,
  { config, given, problems }: ConfigReading,
  theirs: Config,
): Promise<ConfigReading | null> {
  const all = theirs.vips.map(formatEndpoint);
  const isTheirs = config.vips.every((vip) => all.includes(formatEndpoint(vip)));
  if (!given.has('vip') || problems.length > 0 || !isTheirs) return null;
  const whole = await readConfig({ ...sources, flags: { ...sources.flags, vip: all } });
  return whole.problems.length === 0 ? whole : null;
}

const reasons: Readonly<Record<OptionsWord['kind'], string>> = {
  nobody: 'no agent runs here',
  untrusted: "the agent here may not be root's, so this command does not ask it",
  silent: 'the agent here does not report its own',
  told: 'the agent here has options that this version does not know',
};

function describeDifferences({ config, given }: ConfigReading, theirs: Config): string[] {
  return sharedNames
    .filter((name) => given.has(name) && hasOther(name, config, theirs))
    .map((name) => {
      const other = describe(theirs, [name]);
      return `${describe(config, [name])} is taken, but the running agent has ${other === '' ? 'none' : other}`;
    });
}

function hasOther(name: OptionName, left: Config, right: Config): boolean {
  return describe(left, [name]) !== describe(right, [name]);
}

function describe(config: Config, names: readonly OptionName[]): string {
  return quoteWords(toArguments(config, new Set(names)));
}
