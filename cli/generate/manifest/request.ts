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
  return quoteWords([
    ...['vipnat', 'manifest', options.kind],
    ...toArguments(config, given),
    ...toKeepalivedArguments(options),
    ...(options.keepalivedImage === null ? [] : [`--keepalived-image=${options.keepalivedImage}`]),
    ...toPodArguments(options),
    ...toServicesArguments(options),
  ]);
}

/** The flags of pods that stand for checked options, `--image=a/b:1`; one with its default gets none. */
export function toPodArguments({ kind, image, namespace, leastPrivilege }: ManifestOptions): string[] {
  return [
    ...(image === null ? [] : [`--image=${image}`]),
    ...(namespace === chooseNamespace(kind) ? [] : [`--namespace=${namespace}`]),
    ...(leastPrivilege ? ['--least-privilege'] : []),
  ];
}

/** The flags of `services` alone, in the same way. */
export function toServicesArguments(options: ManifestOptions): string[] {
  const { pool, defaultClass, defaultDevice, gate, injectGates, balancerListen, nodeProbePort } = options;
  const usual = injectGates === injectionMethods[0];
  return [
    ...pool.map((range) => `--pool=${range}`),
    ...(defaultClass ? ['--default-class'] : []),
    ...(defaultDevice === null ? [] : [`--default-device=${defaultDevice}`]),
    ...gate.map((type) => `--gate=${type}`),
    ...(injectGates === null ? [] : [usual ? '--inject-gates' : `--inject-gates=${injectGates}`]),
    ...(balancerListen === null ? [] : [`--balancer-listen=${balancerListen}`]),
    ...(nodeProbePort === null ? [] : [`--node-probe-port=${nodeProbePort}`]),
  ];
}
