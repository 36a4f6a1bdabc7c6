import { safeParse } from 'zod/mini';
import { type OptionName } from '../../config/options.ts';
import { quoteText } from '../../config/setting.ts';
import { duration } from '../../config/values.ts';
import { type Flag, optional, reportChoice, text, toggle } from '../flags/flag.ts';
import { type ColourChoice, colourChoices } from '../format/text/screen.ts';

/** The options of the configuration that a look at this host depends on. */
export const hostOptions = [
  'vip',
  'mode',
  'method',
  'proxyMode',
  'iptables',
  'clusterIp',
  'endpoints',
  'masquerade',
  'sysctls',
  'localClients',
  'probeInterval',
  'probeTimeout',
  'caFile',
  'kubeconfig',
  'stateDir',
  'logLevel',
] as const satisfies readonly OptionName[];

/** `--json`. */
export const json = toggle('print JSON');

/** `--color` and `--no-color`, for commands whose words have states to colour. */
export const color: Flag<ColourChoice> = {
  ...text<ColourChoice>(
    'WHEN',
    `when to colour: ${colourChoices.join(', ').replace(',', ' (default),')}`,
    readColour,
  ),
  choices: colourChoices,
  negation: 'the same as --color never',
};

/** False is `--no-color`. */
function readColour(given: string | false | undefined, reading: Parameters<Flag['read']>[1]): ColourChoice {
  if (given === undefined) return 'auto';
  if (given === false) return 'never';
  const choice = colourChoices.find((candidate) => candidate === given);
  if (choice === undefined) reportChoice(given, { choices: colourChoices, example: 'always' }, reading);
  return choice ?? 'auto';
}

const interval = duration(100, 3_600_000);

/** `--watch`: after how many milliseconds to print again, `presetMs` without a value; null to print once. */
export function watch(presetMs: number): Flag<number | null> {
  const meaning = `print again every so many seconds (default: ${presetMs / 1000})`;
  return optional('SECONDS', meaning, (given, { flag, report }) => {
    if (given === undefined || given === true) return given === true ? presetMs : null;
    // A number without its unit is of seconds.
    const result = safeParse(interval, /\d$/.test(given) ? `${given}s` : given);
    if (result.success) return result.data;
    const [{ message } = { message: '' }] = result.error.issues;
    const complaint = message.startsWith('is not between') ? message : 'is not a number of seconds';
    report(`${flag} ${quoteText(given)} ${complaint}. Example: ${flag}=5`);
    return null;
  });
}
