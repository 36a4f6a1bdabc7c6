import { definePlainCommand, explainConfigOption, helpTopics, type CommandRow } from '../command.ts';
import { exitStatuses, quoteText, suggest, wrap, toAscii } from '../../lib/text.ts';
import { describeError, errorCodes, VipnatError, type ErrorCode } from '../../lib/errors.ts';
import { eventCatalogue, type EventReason } from '../../lib/telemetry/events.ts';
import { metrics as agentMetrics } from '../../lib/telemetry/metrics.ts';
import { conditionToReasons, eventToMeaning, metricToRemedy } from '../reference.ts';
import { describeOption, nameVariable, optionNames, type OptionName } from '../../config/options.ts';

/** `vipnat help`: what it lists. The help of a command is not printed here, because `help status` is read as `status --help`. */
export const help = definePlainCommand({
  usage: '[COMMAND|TOPIC|NAME]',
  help: `
Examples:
  vipnat help status
  vipnat help manifest daemonset
  vipnat help TOOL_MISSING

The help of a command is the same as --help after the command. The topics are errors,
doctor (its checks), events, metrics, options, and reasons (of conditions in the API).
A name is a code, a check, an event, a metric, an option or a reason.
Exit status: 0 printed, 78 no such command, topic or name.`,
  flags: {},
  words: { choices: helpTopics, read: () => ({}) },
  run: async ({ words: [word = ''], table, screen, stdout }) => {
    const entries = await findEntries(word, table);
    const { width, isUnicode } = screen();
    const note = word === 'doctor' ? ['Options of the command: vipnat doctor --help\n'] : [];
    const text = [...entries.map((entry) => formatEntry(entry, width ?? 80)), ...note].join('\n');
    stdout(isUnicode ? text : toAscii(text));
    return exitStatuses.done;
  },
});

/** What one name stands for: a code, a reason, a metric or an option. */
export interface Entry {
  readonly name: string;
  /** What else it is called. */
  readonly others?: readonly string[];
  /** What else programs see of it, as a phrase; empty for what is usual. */
  readonly kind: string;
  /** Paragraphs in Markdown, without links. */
  readonly texts: readonly string[];
}

/** What vipnat knows of each topic, in the order of its catalogue. */
export const topicToList: Readonly<Record<(typeof helpTopics)[number], () => Entry[] | Promise<Entry[]>>> = {
  errors: () => errorCodes.map(toErrorEntry),
  doctor: async () => {
    const { topics } = await import('../doctor/examine.ts');
    const checks = Object.values(topics).flatMap((one) => Object.entries(one));
    return checks.map(([name, one]) => ({ name, kind: one.levels.join(' or '), texts: [one.meaning] }));
  },
  events: () =>
    Object.entries(eventCatalogue).map(([name, { type, action }]) => {
      return { name, kind: `${type}, ${action}`, texts: [eventToMeaning[name as EventReason]] };
    }),
  // Of agents, controllers and balancers.
  metrics: async () => {
    const { controllerMetrics, drainStart } = await import('../../controller/main.ts');
    const { balancerMetrics, programmingDuration } = await import('../../balancer/main.ts');
    const timed = [drainStart, programmingDuration].map(
      ({ name, definition }) => [name, definition] as const,
    );
    const read = [agentMetrics, controllerMetrics, balancerMetrics].flatMap((one) => Object.entries(one));
    return [...read, ...timed].map(([name, { type, labels, help }]) => ({
      name,
      kind: [type, ...labels].join(', '),
      texts: [`${help}.`, ...[metricToRemedy[name] ?? []].flat()],
    }));
  },
  options: () => optionNames.map(toOptionEntry),
  reasons: () =>
    Object.entries(conditionToReasons).flatMap(([kind, reasons]) =>
      Object.entries(reasons).map(([name, remedy]) => ({ name, kind, texts: [remedy] })),
    ),
};

function toErrorEntry(name: ErrorCode): Entry {
  const { exit, retry, meaning, remedy } = describeError(name);
  const status = exit === exitStatuses.failed ? '' : `exit status ${exit}, `;
  return { name, kind: retry ? '' : `${status}not tried again`, texts: [meaning, remedy] };
}

function toOptionEntry(name: OptionName): Entry {
  const { term, meaning } = explainConfigOption(name);
  const others = [nameVariable(name), name];
  const example = `Example: \`${describeOption(name).example}\`.`;
  return {
    name: term,
    others,
    kind: others.join(', '),
    texts: [`${meaning.replace(/: (?=[^:]*\(default\))/, '. One of ')}. ${example}`],
  };
}

/** All of a topic, or all that has a name, in whatever case. Rejects as CONFIG_INVALID where nothing has it. */
async function findEntries(word: string, commands: readonly CommandRow[]): Promise<Entry[]> {
  const topic = helpTopics.find((one) => one === word);
  if (topic !== undefined) return await topicToList[topic]();
  const all = (await Promise.all(helpTopics.map(async (one) => await topicToList[one]()))).flat();
  const simplify = (name: string) => name.toLowerCase().replaceAll(/[-_]/g, '');
  const listNames = ({ name, others = [] }: Pick<Entry, 'name' | 'others'>) => [
    name.replace(/ .*/, ''),
    ...others,
  ];
  const found = all.filter((entry) => listNames(entry).some((name) => simplify(name) === simplify(word)));
  if (found.length > 0) return found;
  const known = [...[...commands, ...all].flatMap(listNames), ...helpTopics];
  const hint = suggest(word, known, `Topics: ${helpTopics.join(', ')}`);
  throw new VipnatError('CONFIG_INVALID', `${quoteText(word)} is nothing that help knows. ${hint}`);
}

/** The name, and below it what it means, without the marks of Markdown. Code is not broken. */
function formatEntry({ name, kind, texts }: Entry, width: number): string {
  const toPlain = (text: string) =>
    text.replaceAll(/`([^`]*)`/g, (_, code: string) => code.replaceAll(' ', '\u00a0'));
  const lines = texts.flatMap((text) => wrap(toPlain(text), width - 2).map((line) => `  ${line}\n`));
  return `${name}${kind === '' ? '' : ` (${kind})`}\n${lines.join('')}`;
}
