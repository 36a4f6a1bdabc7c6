import { readFileSync } from 'node:fs';
import type { Environment } from '../../../config/load.ts';
import { checkCall } from '../documents/call.ts';
import type { ManifestOptions } from '../../../cli/manifest/request.ts';
import { printManifest } from '../../../cli/manifest/agent.ts';
import { parseAllDocuments } from 'yaml';

/** package.json's version, and the image of a build that names no other. */
export const {
  version,
  config: { image: imageRepository },
} = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string; config: { image: string } };
export const ownImage = `${imageRepository}:${version}`;
export const ownImages = { vipnat: ownImage, keepalived: `${imageRepository}-keepalived:${version}` };

/** Words, or a text with blanks between them. */
type Line = string | readonly string[];

/** What `vipnat manifest` with these words reads, and everything that is wrong with them. */
export async function readWords(line: Line, environment: Environment = {}) {
  const words = typeof line === 'string' ? line.split(' ') : line;
  const { call, reading, problems } = await checkCall(['manifest', ...words], environment);
  const options = call.options as ManifestOptions;
  return { request: { ...reading, options, ownImages }, problems };
}

/** What a built `vipnat manifest` with these words prints. */
export async function print(words: Line, environment: Environment = {}): Promise<string> {
  const { request, problems } = await readWords(words, environment);
  if (problems.length > 0) throw new TypeError(problems.join('\n'));
  return printManifest(request);
}

/** As much of an object of Kubernetes as tests look at. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly [key: string]: unknown;
}

/** As much of a pod's spec as tests look at. */
export interface PodSpec {
  readonly initContainers?: readonly Container[];
  readonly containers: readonly [Container];
  readonly volumes: readonly {
    readonly name: string;
    /** Missing for an emptyDir. */
    readonly hostPath?: { readonly path: string; readonly type: string };
  }[];
  readonly [key: string]: unknown;
}

interface Container {
  readonly name: string;
  /** Missing where the image's entry point is meant. */
  readonly command?: readonly string[];
  readonly image: string;
  readonly args: readonly string[];
  readonly securityContext: {
    readonly readOnlyRootFilesystem?: boolean;
    readonly capabilities?: { readonly add?: readonly string[] };
  };
  readonly volumeMounts: readonly { name: string; mountPath: string; readOnly?: boolean }[];
  readonly [key: string]: unknown;
}

/** The objects of a printed manifest, as Kubernetes reads them: by YAML 1.1. */
export function parse(text: string): KubernetesObject[] {
  return parseAllDocuments(text, { version: '1.1' }).map((document) => {
    if (document.errors.length > 0 || document.warnings.length > 0) throw new TypeError(text);
    return document.toJS() as KubernetesObject;
  });
}

const podKinds = ['Pod', 'DaemonSet', 'Deployment'];

/** The spec of the one pod that a printed manifest makes. */
export function findPodSpec(text: string): PodSpec {
  const object = parse(text).findLast(({ kind }) => podKinds.includes(kind));
  const { spec } = object as unknown as { spec: PodSpec & { template?: { spec: PodSpec } } };
  return spec.template?.spec ?? spec;
}
