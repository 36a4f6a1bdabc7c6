import { findNearest } from '../../config/nearest.ts';
import { nameFlag } from '../../config/options.ts';
import { quoteText, splitList } from '../../config/setting.ts';
import { type PlainContext, type Words, type WordsReading } from '../command/command.ts';
import { color, json } from '../command/shared-flags.ts';
import { list, type OptionsOf, text, toggle } from '../flags/flag.ts';

/** What `vipnat device` does. */
export const deviceActions = ['configuration', 'conformance', 'list', 'plan', 'state'] as const;

/** Its flags. `deviceWords` says what is wrong with them, because that depends on the action. */
export const deviceFlags = {
  /** The file with its description. */
  device: text('FILE', 'a LoadBalancerDevice as YAML', (given = '') => given),
  /** A name or a path; null for what the description says. */
  driver: text('DRIVER', 'a driver of vipnat, or the path of a module (default: spec.driver)'),
  /** A file or a folder; null for variables of the environment. */
  credentials: text(
    'PATH',
    'a folder with the files username, password and ca.crt, or a file with a line for each (default: two variables)',
  ),
  /** The file with the wanted balancer. */
  balancer: text('FILE', 'for plan: the wanted balancer as YAML'),
  /** Which unit, from 1 on; null for the only one. */
  unit: text(
    'NUMBER',
    'for configuration: the number of the unit in spec.units, 1 or 2',
    (given): number | null => (given === undefined ? null : Number(given)),
  ),
  /** The names of the checks to run; none for all. */
  only: list('CHECK', 'for conformance: run this check; repeat the flag for more'),
  /** At which balancers may listen, three at least; null for any. */
  ports: text(
    'PORT,…',
    'for conformance: three ports at which balancers may listen',
    (given): readonly number[] | null => (given === undefined ? null : splitList(given).map(Number)),
  ),
  /** Remove first what an earlier run has left. */
  removeLeftovers: toggle('for conformance: first remove balancers of an earlier run'),
  json,
  color,
};

type Action = (typeof deviceActions)[number];

/** What `vipnat device` is asked for. */
export type DeviceOptions = OptionsOf<typeof deviceFlags> & { readonly action: Action };

/** What its parts are given. */
export type DeviceContext = PlainContext<DeviceOptions>;

/** The action. */
export const deviceWords: Words<{ readonly action: Action }> = {
  count: () => 1,
  choices: deviceActions,
  read: ([word], reading) => {
    const action = deviceActions.find((candidate) => candidate === word);
    if (action !== undefined) findProblems(action, reading).forEach(reading.report);
    else if (!reading.isUnclear) reading.report(explainAction(word));
    return { action: action ?? deviceActions[0] };
  },
};

function explainAction(word: string | undefined): string {
  const what =
    word === undefined
      ? `device needs what to do: ${deviceActions.join(', ')}`
      : `${quoteText(word)} is none of ${deviceActions.join(', ')}`;
  const example = findNearest(word ?? '', deviceActions) ?? 'state';
  return `${what}. Example: vipnat device ${example} --device device.yaml`;
}

/** Flag to the one action that it is for. */
const flagToAction = {
  balancer: 'plan',
  unit: 'configuration',
  only: 'conformance',
  ports: 'conformance',
  removeLeftovers: 'conformance',
} as const satisfies Partial<Record<keyof typeof deviceFlags, Action>>;

function findProblems(action: Action, { all }: WordsReading): string[] {
  const [unit, ports] = [all['unit'] as string | undefined, all['ports'] as string | undefined];
  return [
    ...(all['device'] === undefined ? ['no device given. Example: --device device.yaml'] : []),
    ...(action === 'plan' && all['balancer'] === undefined
      ? ['plan needs the wanted balancer. Example: --balancer web.yaml']
      : []),
    ...Object.entries(flagToAction)
      .filter(([name, only]) => all[name] !== undefined && only !== action)
      .map(([name, only]) => `${nameFlag(name)} is for vipnat device ${only} only. Leave it out`),
    ...(unit === undefined || /^[12]$/.test(unit)
      ? []
      : [`--unit ${quoteText(unit)} is neither 1 nor 2. Example: --unit 1`]),
    ...checkPorts(ports),
  ];
}

function checkPorts(given: string | undefined): string[] {
  if (given === undefined) return [];
  const ports = splitList(given);
  const isRight = ports.every((port) => /^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535);
  if (isRight && new Set(ports).size === ports.length && ports.length >= 3) return [];
  return [
    `--ports ${quoteText(given)} is not three different ports or more. Example: --ports 8080,8081,8443`,
  ];
}
