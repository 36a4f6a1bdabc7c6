import { type PodKind } from '../../../lib/telemetry/pod-kind.ts';
import { podVariable } from '../../../config/environment.ts';
import { nameVariable } from '../../../config/options.ts';
import { chooseImage, chooseKeepalivedImage, type ManifestRequest } from './request.ts';

/** A container's further fields, in the order of the manifest, and what it was measured to need. */
interface Container {
  readonly name: string;
  readonly image: string;
  readonly requests: { readonly cpu: string; readonly memory: string };
  readonly fields: object;
}

/** What all containers have. */
function toContainer({ name, image, requests, fields }: Container): object {
  return {
    name,
    image,
    // Also for a tag `latest`: an image that was loaded by hand is nowhere to be pulled from, and the VIP waits for no registry.
    imagePullPolicy: 'IfNotPresent',
    ...fields,
    resources: { requests },
    // What a wrong configuration is told then stands in `kubectl describe pod`.
    terminationMessagePolicy: 'FallbackToLogsOnError',
  };
}

/**
 * A container that runs vipnat for as long as its pod lives. `args` are as Kubernetes takes them, with `$` escaped. `env` is beside the
 * variable that names the kind of the pod.
 */
export interface VipnatContainer {
  readonly name: string;
  readonly kind: PodKind;
  readonly args: readonly string[];
  readonly env?: readonly object[];
  readonly fields: object;
}

/** vipnat's container. */
export function toVipnatContainer(request: ManifestRequest, container: VipnatContainer): object {
  const { name, kind, args, env: others = [], fields } = container;
  const env = [{ name: podVariable, value: kind }, ...others];
  const requests = { cpu: '20m', memory: '128Mi' };
  return toContainer({ name, image: chooseImage(request), requests, fields: { args, env, ...fields } });
}

/** A container that runs vipnat once, before the others start. */
export function toInitContainer(request: ManifestRequest, name: string, fields: object): object {
  const requests = { cpu: '10m', memory: '64Mi' };
  return toContainer({ name, image: chooseImage(request), requests, fields });
}

/** keepalived's container. */
export function toKeepalivedContainer(request: ManifestRequest, fields: object): object {
  const requests = { cpu: '10m', memory: '16Mi' };
  return toContainer({ name: 'keepalived', image: chooseKeepalivedImage(request), requests, fields });
}

/** The name of the node, which only Kubernetes knows. */
export const nodeName = toFieldVariable(nameVariable('nodeName'), 'spec.nodeName');

/** A variable that has a field of the pod. */
export function toFieldVariable(name: string, fieldPath: string): object {
  return { name, valueFrom: { fieldRef: { fieldPath } } };
}

/** The image may name another user, and capabilities are root's. */
export const asRoot = { runAsUser: 0 };

/**
 * SELinux's type of containers may write nothing of the host's, so a pod without this would lack its folders and the lock wherever
 * SELinux is enforced. It is the type that privileged containers get anyway; the level keeps what they write readable
 * for the host. A runtime without SELinux ignores both.
 */
const seLinuxOptions = { type: 'spc_t', level: 's0' };

/** What no container gets that has capabilities: more of them, and a root file system that it can write. */
export function toBounded(capabilities: readonly string[]): object {
  return {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'], ...(capabilities.length === 0 ? {} : { add: capabilities }) },
  };
}

/** As root, but with these capabilities only, on a root file system that it cannot write. */
export function toConfined(capabilities: readonly string[]): object {
  return {
    ...asRoot,
    ...toBounded(capabilities),
    seccompProfile: { type: 'RuntimeDefault' },
    seLinuxOptions,
  };
}

/** Kubernetes puts variables in place of `$(NAME)` in arguments, and takes `$$` for `$`. */
export function escapeVariables(text: string): string {
  return text.replaceAll('$', () => '$$');
}
