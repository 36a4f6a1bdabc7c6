import {
  type Settings,
  type Config,
  type OptionName,
  fitAgentSettings,
  optionNames,
  type Problem,
  type SourceReading,
  type Values,
  type Setting,
  schema,
  findLine,
  listChoices,
  nameIn,
  formatSource,
  describeOption,
  nameVariable,
  readSettings,
  nameFlag,
} from './options.ts';
import { findNearest, toPrintableLine, quoteText } from '../lib/text.ts';
import { sortEndpoints, type Endpoint, formatEndpoint, type Family } from '../lib/net.ts';
import { readCertificates } from '../lib/files.ts';
import { accessSync, constants, statSync } from 'node:fs';
import { hostname } from 'node:os';

/** Where the configuration comes from. */
export interface ConfigSources {
  readonly flags: Flags;
  readonly environment: Environment;
  /** The file that --config or VIPNAT_CONFIG names. */
  readonly file: string | undefined;
  /** Whether it is for another host: then files that it names are not searched for on this one. False by default. */
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
  const given = (name: OptionName) => flags[name];
  const own = new Map([...fromFile.settings, ...fromEnvironment.settings, ...readSettings(given, () => '')]);
  const settings = new Map([...fitAgentSettings(agent, own), ...own]);
  const { values, problems, unreadable } = checkValues(settings);
  const isFileLost = fromFile.problems.length > 0 && fromFile.settings.size === 0;
  const lost = isFileLost ? optionNames.filter((name) => !settings.has(name)) : [];
  const found = [...fromFile.problems, ...problems, ...findConflicts(values, settings, isForElsewhere)];
  // The file's first, by line. Those of one line, and the others, keep their order.
  const findPlace = ({ line }: Problem) => line ?? Number.MAX_SAFE_INTEGER;
  const sorted = found.toSorted((one, other) => findPlace(one) - findPlace(other));
  return {
    config: toConfig(values),
    problems: [...fromEnvironment.problems, ...sorted].map(({ text }) => text),
    unreadable: new Set([...unreadable, ...lost]),
    given: new Set(optionNames.filter((name) => own.has(name))),
  };
}

/** The YAML parser is loaded only for those who have a file: it takes longer than all the rest. */
async function readFile(file: string | undefined): Promise<SourceReading> {
  if (file === undefined) return { settings: new Map(), problems: [] };
  const { readConfigFile } = await import('./file.ts');
  return await readConfigFile(file);
}

/** Values that cannot be read are replaced by their defaults, so that the others can still be held against one another. */
function checkValues(settings: Settings) {
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

/** `index` is that of the list's element that it is about. */
function formatProblem(
  name: OptionName,
  setting: Setting | undefined,
  { index, message }: { readonly index: number | undefined; readonly message: string },
): string {
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

/**
 * The problems that values have with one another, each right by itself, and with this host unless they are for another:
 * in the order of the options.
 */
function findConflicts(values: Values, settings: Settings, isForElsewhere: boolean): Problem[] {
  const format = (name: OptionName, complaints: readonly Complaint[]) =>
    complaints.map(({ text, index, what, hint }) => {
      const setting = settings.get(name);
      const from = formatSource(setting?.from(index) ?? '');
      return {
        text: `${nameIn(name, setting)} ${text} ${what}${from}. ${hint}`,
        line: findLine(setting, index),
      };
    });
  return [
    ...format('vip', checkVips(values.vip)),
    ...format('mode', checkMode(values)),
    ...format('method', checkMethod(values)),
    ...format('clusterIp', checkClusterIps(values)),
    ...format('endpoints', checkEndpoints(values)),
    ...format('caFile', isForElsewhere ? [] : checkCaFile(values)),
    ...format('kubeconfig', isForElsewhere ? [] : checkKubeconfig(values)),
    ...format('listen', checkListen(values)),
  ];
}

interface Complaint {
  readonly text: string;
  /** Which element of the list, if it is one. */
  readonly index?: number;
  readonly what: string;
  readonly hint: string;
}

function checkVips(vips: readonly Endpoint[]): Complaint[] {
  const texts = vips.map(formatEndpoint);
  return texts.flatMap((text, index) =>
    texts.indexOf(text) === index ? [] : [{ text, index, what: 'is given twice', hint: 'Leave one out' }],
  );
}

/** The rules of a mode that follows kube-proxy lead to what only one proxy mode writes. */
const modeToProxyMode: Partial<Record<Values['mode'], Values['proxyMode']>> = {
  'service-chain': 'iptables',
  'cluster-ip': 'ipvs',
};

function checkMode({ mode, proxyMode, iptables }: Values): Complaint[] {
  const needed = modeToProxyMode[mode];
  const what =
    needed !== undefined && proxyMode !== 'auto' && proxyMode !== needed
      ? `follows kube-proxy in its mode ${needed}, and --proxy-mode is ${proxyMode}`
      : needed === 'iptables' && iptables === 'none'
        ? 'leads to a chain of iptables, and --iptables is none'
        : null;
  return what === null ? [] : [{ text: mode, what, hint: 'Leave out the mode' }];
}

/** kube-proxy chooses where its rules lead. */
function checkMethod({ method, mode }: Values): Complaint[] {
  if (method === 'random' || mode === 'auto' || mode === 'direct') return [];
  const what = `cannot be had with the mode ${mode}, where kube-proxy chooses`;
  return [{ text: method, what, hint: 'Leave out the mode, or give direct' }];
}

function checkClusterIps({ clusterIp, vip }: Values): Complaint[] {
  return clusterIp.flatMap(({ family, text }, index) => {
    if (vip.some(({ address }) => address === text)) {
      return [{ text, index, what: 'is a virtual IP', hint: 'Give the ClusterIP of default/kubernetes' }];
    }
    if (clusterIp.findIndex((other) => other.family === family) < index) {
      const what = `is a second ClusterIP for ${nameFamily(family)}`;
      return [{ text, index, what, hint: 'Give one per family' }];
    }
    return checkFamily({ family, text, index }, vip);
  });
}

function checkEndpoints({ endpoints, vip }: Values): Complaint[] {
  return endpoints.flatMap((endpoint, index) => {
    const text = formatEndpoint(endpoint);
    if (vip.some(({ address }) => address === endpoint.address)) {
      const what = 'is at a virtual IP: connections would run in a loop';
      return [{ text, index, what, hint: "Give the apiservers' own addresses" }];
    }
    return checkFamily({ family: endpoint.family, text, index }, vip);
  });
}

function checkCaFile({ caFile }: Values): Complaint[] {
  if (caFile === null || readCertificates(caFile) !== null) return [];
  const what = 'cannot be read as a PEM certificate';
  return [
    { text: quoteText(caFile), what, hint: "Give the cluster's CA, such as /etc/kubernetes/pki/ca.crt" },
  ];
}

/** What is in it is read with the library for it, later: it is replaced now and then while the agent runs. */
function checkKubeconfig({ kubeconfig }: Values): Complaint[] {
  if (kubeconfig === null || isReadableFile(kubeconfig)) return [];
  const hint = 'Give a kubeconfig, such as /etc/kubernetes/admin.conf';
  return [{ text: quoteText(kubeconfig), what: 'is not a readable file', hint }];
}

/** Whoever asked there would be sent to an apiserver. */
function checkListen({ listen, vip }: Values): Complaint[] {
  const text = listen === null ? 'off' : formatEndpoint(listen);
  if (!vip.map(formatEndpoint).includes(text)) return [];
  return [{ text, what: 'is a virtual IP that vipnat balances', hint: 'Give another port' }];
}

function isReadableFile(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Without any VIP there is nothing to compare with: that is another problem, or none, as for cleanup. */
function checkFamily(
  { family, text, index }: { family: Family; text: string; index: number },
  vips: readonly Endpoint[],
): Complaint[] {
  if (vips.length === 0 || vips.some((vip) => vip.family === family)) return [];
  const name = nameFamily(family);
  return [{ text, index, what: `is ${name}, but no virtual IP is`, hint: `Add an ${name} virtual IP` }];
}

function nameFamily(family: Family): string {
  return family === 'ipv4' ? 'IPv4' : 'IPv6';
}

/** Variable name to value, as process.env has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The variable that names the file, as --config does. */
export const configVariable = 'VIPNAT_CONFIG';

/** The variable by which a manifest says what kind of pod the agent is in. */
export const podVariable = 'VIPNAT_POD';

/** The variables by which `vipnat device` gets credentials of a device. */
export const credentialsVariables = ['VIPNAT_DEVICE_USERNAME', 'VIPNAT_DEVICE_PASSWORD'] as const;

/**
 * The variable by which vipnat's own tests say how long the agent rests when nothing calls for a sync. Its usual minute hides a
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
  const find = (name: OptionName) => {
    const text = environment[nameVariable(name)];
    return text === '' ? undefined : text;
  };
  const settings = readSettings(find, nameVariable);
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
      const endings = known.map((name) => name.slice(7));
      const nearest = findNearest(variable.slice(7), endings);
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

/** The name of this host's Node in Kubernetes: as it is given, else the host's, as the kubelet names itself by default. */
export function nameNode({ nodeName }: Pick<Config, 'nodeName'>): string {
  return nodeName ?? hostname().trim().toLowerCase();
}

/**
 * The flags that stand for some options of a checked configuration, `--vip=10.0.0.50:6443`, in canonical text and in the
 * order of the options: whoever is started with them has the same values, whichever source they came from here.
 * An option that is not among `names`, or that holds nothing, gets no flag.
 */
export function toArguments(config: Config, names: ReadonlySet<OptionName>): string[] {
  return optionNames
    .filter((name) => names.has(name))
    .flatMap((name) => toTexts(config, name).map((text) => `${nameFlag(name)}=${text}`));
}

/** The texts that an option's flag can be given for the same value, each with a flag of its own; none where it holds nothing. */
export function toTexts(config: Config, name: OptionName): readonly string[] {
  const { vips, endpoints, clusterIps, listen, probeIntervalMs, probeTimeoutMs, ...texts } = config;
  const all: Readonly<Record<OptionName, string | null | readonly string[]>> = {
    ...texts,
    vip: vips.map(formatEndpoint),
    endpoints: endpoints.length === 0 ? [] : [endpoints.map(formatEndpoint).join()],
    clusterIp: Object.values(clusterIps),
    listen: listen === null ? 'off' : formatEndpoint(listen),
    probeInterval: formatDuration(probeIntervalMs),
    probeTimeout: formatDuration(probeTimeoutMs),
  };
  return [all[name] ?? []].flat();
}

/** As it was given, to the microsecond: 1.001 s times 1000 is not 1001. */
function formatDuration(ms: number): string {
  return `${Number(ms.toFixed(3))}ms`;
}

/** Option name to what its flag was given: every text of a list option, or the last one of another. Unknown flags are ignored. */
export type Flags = Readonly<Record<string, string | readonly string[] | undefined>>;
