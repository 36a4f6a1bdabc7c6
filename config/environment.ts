import { toPrintableLine } from '../lib/text/printable.ts';
import { findNearest } from './nearest.ts';
import { describeOption, nameVariable, optionNames } from './options.ts';
import { type Setting, type SourceReading, splitList } from './setting.ts';

/** Variable name to value, as process.env has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The variable that names the file, as --config does. */
export const configVariable = 'VIPNAT_CONFIG';

/** The variable by which a manifest says what kind of pod the agent is in. */
export const podVariable = 'VIPNAT_POD';

/** The variables by which `vipnat device` gets credentials of a device. */
export const credentialsVariables = ['VIPNAT_DEVICE_USERNAME', 'VIPNAT_DEVICE_PASSWORD'] as const;

/**
 * The variable by which vipnat's own tests say how long the agent rests when nothing calls for a look. Its usual minute hides a
 * trigger that is missing from whoever waits longer. For nobody else: no document names it.
 */
const tickVariable = 'VIPNAT_TEST_TICK_MS';

/** That time in milliseconds; undefined where there is none. */
export function readTick(environment: Environment): number | undefined {
  const text = environment[tickVariable] ?? '';
  return /^\d+$/.test(text) ? Number(text) : undefined;
}

/** The settings that VIPNAT_* variables give. An empty one counts as not set; an unknown one is a problem. */
export function readEnvironment(environment: Environment): SourceReading {
  const settings = new Map<string, Setting>();
  for (const name of optionNames) {
    const variable = nameVariable(name);
    const text = environment[variable];
    if (text === undefined || text === '') continue;
    settings.set(name, { value: describeOption(name).isList ? splitList(text) : text, from: () => variable });
  }
  return { settings, problems: findUnknown(environment).map((text) => ({ text, line: null })) };
}

function findUnknown(environment: Environment): string[] {
  const known = [
    ...optionNames.map(nameVariable),
    ...credentialsVariables,
    configVariable,
    podVariable,
    tickVariable,
  ];
  return Object.entries(environment)
    .filter(([variable]) => variable.startsWith('VIPNAT_') && !known.includes(variable))
    .filter(([variable, value = '']) => value !== '' && !isServiceLink(variable, value))
    .map(([variable]) => {
      const nearest = findNearest(
        variable.slice(7),
        known.map((name) => name.slice(7)),
      );
      const hint = nearest === null ? 'See vipnat run --help' : `Did you mean VIPNAT_${nearest}?`;
      return `${toPrintableLine(variable)} in the environment is not an option. ${hint}`;
    });
}

/**
 * Whether the kubelet set this one: for each Service in a pod's namespace it sets variables with the Service's
 * name in front, so that a Service `vipnat` or `vipnat-metrics` gives VIPNAT_SERVICE_HOST and the like. Such a
 * Service, made at any time, must not keep the agent from starting.
 */
function isServiceLink(variable: string, value: string): boolean {
  if (/_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$/.test(variable)) return true;
  if (/_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/.test(variable)) return true;
  return variable.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(value);
}
