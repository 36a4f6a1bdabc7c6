import { quoteWords } from '../../../lib/text/shell-words.ts';
import { toArguments } from '../../../config/arguments.ts';
import { type Config } from '../../../config/config.ts';
import { type OptionName } from '../../../config/options.ts';
import { injectionMethods } from '../../../lib/services/injection.ts';
import { toKeepalivedArguments } from '../keepalived/options.ts';
import { chooseNamespace, type ManifestOptions, type OwnImages } from './options.ts';

/** All that a manifest is made of. Checked: there is a VIP, and `findManifestProblems` finds nothing. */
export interface ManifestRequest {
  readonly options: ManifestOptions;
  readonly config: Config;
  /** The options that the user gave: these become arguments of the container. */
  readonly given: ReadonlySet<OptionName>;
  /** The images of this build, for what the options do not name. */
  readonly ownImages: OwnImages;
  /** The command line that starts this program on a host. */
  readonly ownProgram: readonly string[];
}

/** Whether the container is to be privileged. */
export function isPrivileged({ options }: ManifestRequest): boolean {
  return options.kind === 'daemonset' && !options.leastPrivilege;
}

/** The image to run. */
export function chooseImage({ options, ownImages }: ManifestRequest): string {
  return options.image ?? ownImages.vipnat;
}

/** The image of keepalived to run. */
export function chooseKeepalivedImage({ options, ownImages }: ManifestRequest): string {
  return options.keepalivedImage ?? ownImages.keepalived;
}

/** The command that prints the same manifest, wherever it is run, as a shell takes it. */
export function toCommandLine({ options, config, given }: ManifestRequest): string {
  const { kind, image, namespace, leastPrivilege, keepalivedImage, pool } = options;
  return quoteWords([
    ...['vipnat', 'manifest', kind],
    ...toArguments(config, given),
    ...toKeepalivedArguments(options),
    ...(keepalivedImage === null ? [] : [`--keepalived-image=${keepalivedImage}`]),
    ...(image === null ? [] : [`--image=${image}`]),
    ...(namespace === chooseNamespace(kind) ? [] : [`--namespace=${namespace}`]),
    ...(leastPrivilege ? ['--least-privilege'] : []),
    ...pool.map((range) => `--pool=${range}`),
    ...(options.defaultClass ? ['--default-class'] : []),
    ...(options.defaultDevice === null ? [] : [`--default-device=${options.defaultDevice}`]),
    ...options.gate.map((type) => `--gate=${type}`),
    ...toInjectionArguments(options.injectGates),
    ...(options.balancerListen === null ? [] : [`--balancer-listen=${options.balancerListen}`]),
    ...(options.nodeProbePort === null ? [] : [`--node-probe-port=${options.nodeProbePort}`]),
  ]);
}

function toInjectionArguments(injection: string | null): string[] {
  if (injection === null) return [];
  return injection === injectionMethods[0] ? ['--inject-gates'] : [`--inject-gates=${injection}`];
}
