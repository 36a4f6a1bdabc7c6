import { type Command } from 'commander';
import { findNearest } from '../../config/nearest.ts';
import { quoteText, splitList } from '../../config/setting.ts';
import { deviceActions, type DeviceOptions } from './command-context.ts';
import { findStrangers } from './find-strangers.ts';
import { nameOwnGroup } from './help-options.ts';
import { type DeviceInvocation } from './invocation.ts';
import { readColour } from './read-command.ts';
import { addColour, collect } from './shared-options.ts';

/** What commander hands over. */
interface DeviceWords {
  readonly device?: string;
  readonly driver?: string;
  readonly credentials?: string;
  readonly balancer?: string;
  readonly unit?: string;
  readonly only?: readonly string[];
  readonly ports?: string;
  readonly removeLeftovers?: boolean;
  readonly json?: boolean;
  readonly color?: string | false;
}

/** Gives `device` its words and switches. It has none of the configuration. */
export function addDeviceFlags(command: Command, onFound: (invocation: DeviceInvocation) => void): void {
  command
    .summary(command.description())
    .description(`${command.description()}; ACTION is one of ${deviceActions.join(', ')}`)
    .usage('ACTION --device FILE [options]')
    .option('--device <value>', 'a LoadBalancerDevice as YAML')
    .option('--driver <value>', 'a driver of vipnat, or the path of a module (default: spec.driver)')
    .option(
      '--credentials <value>',
      'a folder with the files username, password and ca.crt, or a file with a line for each (default: two variables)',
    )
    .option('--balancer <value>', 'for plan: the wanted balancer as YAML')
    .option('--unit <value>', 'for configuration: the number of the unit in spec.units, 1 or 2')
    .option('--only <value>', 'for conformance: run this check; repeat the flag for more', collect)
    .option('--ports <value>', 'for conformance: three ports at which balancers may listen')
    .option('--remove-leftovers', 'for conformance: first remove balancers of an earlier run')
    .option('--json', 'print JSON');
  addColour(command);
  for (const option of command.options) option.helpGroup(nameOwnGroup('device'));
  command
    .allowUnknownOption()
    .allowExcessArguments()
    .action((own: DeviceWords) => {
      onFound(readDevice(command, own));
    });
}

function readDevice(command: Command, own: DeviceWords): DeviceInvocation {
  const [word] = command.args;
  const action = deviceActions.find((candidate) => candidate === word);
  const { colour, problems } = readColour(own.color);
  return {
    kind: 'device',
    options: readOptions(action ?? deviceActions[0], own),
    colour,
    problems: [
      ...findStrangers(command, 1),
      ...checkAction(command.args, action),
      ...(action === undefined ? [] : findProblems(action, own)),
      ...problems,
    ],
  };
}

function readOptions(action: DeviceOptions['action'], own: DeviceWords): DeviceOptions {
  const { device = '', driver = null, credentials = null, balancer = null, only = [], json = false } = own;
  const unit = own.unit === undefined ? null : Number(own.unit);
  const ports = own.ports === undefined ? null : splitList(own.ports).map(Number);
  const takesLeftovers = own.removeLeftovers === true;
  return { action, device, driver, credentials, balancer, unit, only, ports, takesLeftovers, json };
}

function checkAction(words: readonly string[], action: DeviceOptions['action'] | undefined): string[] {
  const [word] = words;
  // Words beside an unknown option may be its values: then only the option is told.
  if (action !== undefined || words.some((other) => other.startsWith('-'))) return [];
  const what =
    word === undefined
      ? `device needs what to do: ${deviceActions.join(', ')}`
      : `${quoteText(word)} is none of ${deviceActions.join(', ')}`;
  const example = findNearest(word ?? '', deviceActions) ?? 'state';
  return [`${what}. Example: vipnat device ${example} --device device.yaml`];
}

function findProblems(action: DeviceOptions['action'], own: DeviceWords): string[] {
  const flagToAction = [
    ['--balancer', own.balancer, 'plan'],
    ['--unit', own.unit, 'configuration'],
    ['--only', own.only, 'conformance'],
    ['--ports', own.ports, 'conformance'],
    ['--remove-leftovers', own.removeLeftovers, 'conformance'],
  ] as const;
  return [
    ...(own.device === undefined ? ['no device given. Example: --device device.yaml'] : []),
    ...(action === 'plan' && own.balancer === undefined
      ? ['plan needs the wanted balancer. Example: --balancer web.yaml']
      : []),
    ...flagToAction
      .filter(([, value, only]) => value !== undefined && only !== action)
      .map(([flag, , only]) => `${flag} is for vipnat device ${only} only. Leave it out`),
    ...(own.unit === undefined || /^[12]$/.test(own.unit)
      ? []
      : [`--unit ${quoteText(own.unit)} is neither 1 nor 2. Example: --unit 1`]),
    ...checkPorts(own.ports),
  ];
}

function checkPorts(text: string | undefined): string[] {
  if (text === undefined) return [];
  const ports = splitList(text);
  const isRight = ports.every((port) => /^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535);
  if (isRight && new Set(ports).size === ports.length && ports.length >= 3) return [];
  return [`--ports ${quoteText(text)} is not three different ports or more. Example: --ports 8080,8081,8443`];
}
