import { formatEndpoint } from '../lib/address/endpoint.ts';
import { type Config } from './config.ts';
import { nameFlag, type OptionName, optionNames } from './options.ts';

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

/** The texts that an option's flag can be given for the same value; none where it holds nothing. */
export function toTexts(config: Config, name: OptionName): readonly string[] {
  return formatters[name](config);
}

/** Each text gets a flag of its own. */
const formatters: Readonly<Record<OptionName, (config: Config) => readonly string[]>> = {
  vip: ({ vips }) => vips.map(formatEndpoint),
  mode: ({ mode }) => [mode],
  method: ({ method }) => [method],
  proxyMode: ({ proxyMode }) => [proxyMode],
  iptables: ({ iptables }) => [iptables],
  clusterIp: ({ clusterIps }) => Object.values(clusterIps),
  endpoints: ({ endpoints }) => (endpoints.length === 0 ? [] : [endpoints.map(formatEndpoint).join()]),
  masquerade: ({ masquerade }) => [masquerade],
  sysctls: ({ sysctls }) => [sysctls],
  localClients: ({ localClients }) => [localClients],
  probeInterval: ({ probeIntervalMs }) => [formatDuration(probeIntervalMs)],
  probeTimeout: ({ probeTimeoutMs }) => [formatDuration(probeTimeoutMs)],
  caFile: ({ caFile }) => (caFile === null ? [] : [caFile]),
  kubeconfig: ({ kubeconfig }) => (kubeconfig === null ? [] : [kubeconfig]),
  nodeName: ({ nodeName }) => (nodeName === null ? [] : [nodeName]),
  stateDir: ({ stateDir }) => [stateDir],
  runDir: ({ runDir }) => [runDir],
  listen: ({ listen }) => [listen === null ? 'off' : formatEndpoint(listen)],
  logLevel: ({ logLevel }) => [logLevel],
  logFormat: ({ logFormat }) => [logFormat],
};

/** As it was given, to the microsecond: 1.001 s times 1000 is not 1001. */
function formatDuration(ms: number): string {
  return `${Number(ms.toFixed(3))}ms`;
}
