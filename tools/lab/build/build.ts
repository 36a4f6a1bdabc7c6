import { join } from 'node:path';
import { componentFolder } from '../settings/folders.ts';
import {
  kubernetesModule,
  etcdModule,
  nodeModule,
  specsModule,
  coreDnsModule,
  kubeadmModule,
  helmModule,
  nfpmModule,
  actionlintModule,
  metallbModule,
  type ComponentModule,
  renderGoMod,
  renderTools,
  readLockedSums,
  type GoModule,
} from './module.ts';
import { buildOnce } from './once.ts';
import { writeFileSync, cpSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { LabError } from '../settings/error.ts';

/** Where the programs of a lab are. */
export interface Components {
  readonly etcd: string;
  readonly 'kube-apiserver': string;
  readonly 'kube-proxy': string;
}

/** Where the programs for a Kubernetes release are, once they are built. */
export function locateComponents(release: string): Components {
  const kubernetes = join(componentFolder, kubernetesModule(release).label);
  return {
    etcd: join(componentFolder, etcdModule.label, 'etcd'),
    'kube-apiserver': join(kubernetes, 'kube-apiserver'),
    'kube-proxy': join(kubernetes, 'kube-proxy'),
  };
}

/** Where the programs are that real nodes have on top. */
export interface NodeComponents {
  readonly 'kube-controller-manager': string;
  readonly 'kube-scheduler': string;
  readonly kubectl: string;
  readonly kubelet: string;
}

/** Where the programs of real nodes are for a Kubernetes release, once they are built. */
export function locateNodeComponents(release: string): NodeComponents {
  const folder = join(componentFolder, nodeModule(release).label);
  return {
    'kube-controller-manager': join(folder, 'kube-controller-manager'),
    'kube-scheduler': join(folder, 'kube-scheduler'),
    kubectl: join(folder, 'kubectl'),
    kubelet: join(folder, 'kubelet'),
  };
}

/** Where the programs are that Kubernetes' own specs of Services need. */
export interface SpecComponents {
  /** The specs. */
  readonly specs: string;
  /** What their pods run. */
  readonly agnhost: string;
  readonly coredns: string;
}

/** Where the programs of Kubernetes' own specs are for a Kubernetes release, once they are built. */
export function locateSpecComponents(release: string): SpecComponents {
  const folder = join(componentFolder, specsModule(release).label);
  return {
    specs: join(folder, 'network.test'),
    agnhost: join(folder, 'agnhost'),
    coredns: join(componentFolder, coreDnsModule.label, 'coredns'),
  };
}

/** Builds the programs of Kubernetes' own specs for a Kubernetes release, if they are not there yet: the specs take minutes. */
export async function buildSpecComponents(release: string, say: (line: string) => void): Promise<void> {
  await buildModule(coreDnsModule, say);
  await buildModule(specsModule(release), say);
}

/** Where kubeadm is for a Kubernetes release, once it is built. */
export function locateKubeadm(release: string): string {
  return join(componentFolder, kubeadmModule(release).label, 'kubeadm');
}

/** Builds kubeadm for a Kubernetes release, if it is not there yet. */
export async function buildKubeadm(release: string, say: (line: string) => void): Promise<void> {
  await buildModule(kubeadmModule(release), say);
}

/** Where Helm is, once it is built. */
export function locateHelm(): string {
  return join(componentFolder, helmModule.label, 'helm');
}

/** Builds Helm, if it is not there yet. */
export async function buildHelm(say: (line: string) => void): Promise<void> {
  await buildModule(helmModule, say);
}

/** Where nfpm is, once it is built. */
export function locateNfpm(): string {
  return join(componentFolder, nfpmModule.label, 'nfpm');
}

/** Builds nfpm, if it is not there yet. */
export async function buildNfpm(say: (line: string) => void): Promise<void> {
  await buildModule(nfpmModule, say);
}

/** Where actionlint is, once it is built. */
export function locateActionlint(): string {
  return join(componentFolder, actionlintModule.label, 'actionlint');
}

/** Builds actionlint, if it is not there yet. */
export async function buildActionlint(say: (line: string) => void): Promise<void> {
  await buildModule(actionlintModule, say);
}

/** Where MetalLB's speaker is, once it is built. */
export function locateSpeaker(): string {
  return join(componentFolder, metallbModule.label, 'speaker');
}

/** Builds MetalLB's speaker, if it is not there yet. */
export async function buildSpeaker(say: (line: string) => void): Promise<void> {
  await buildModule(metallbModule, say);
}

/** The path of a file of MetalLB's sources, such as its manifests. */
export async function locateMetallbFile(path: string): Promise<string> {
  return join((await download(metallbModule)).Dir, path);
}

/** Builds the programs for a Kubernetes release that are not there yet. `say` gets a line for each build. */
export async function buildComponents(release: string, say: (line: string) => void): Promise<void> {
  await buildModule(etcdModule, say);
  await buildModule(kubernetesModule(release), say);
}

/** Builds the programs of real nodes for a Kubernetes release, if they are not there yet. */
export async function buildNodeComponents(release: string, say: (line: string) => void): Promise<void> {
  await buildModule(nodeModule(release), say);
}

async function buildModule(component: ComponentModule, say: (line: string) => void): Promise<void> {
  const { label, commands } = component;
  await buildOnce({ label, programs: Object.keys(commands) }, say, (folder) => buildIn(folder, component));
}

async function buildIn(folder: string, component: ComponentModule): Promise<void> {
  const upstream = await readUpstreamModule(component);
  writeFileSync(join(folder, 'go.mod'), renderGoMod(component, upstream));
  writeFileSync(join(folder, 'tools.go'), renderTools(component));
  writeFileSync(join(folder, 'go.sum'), readLockedSums(component) ?? '');
  const flags = ['-mod=mod', '-trimpath', '-buildvcs=false', '-ldflags', component.linkerFlags.join(' ')];
  if (component.sources !== undefined) copySources(component.sources, join(folder, 'own'));
  for (const [name, command] of Object.entries(component.commands)) {
    const verb = name.endsWith('.test') ? ['test', '-c', '-vet=off'] : ['build'];
    await runGo(folder, [...verb, ...flags, '-o', join(folder, 'bin', name), command], component);
  }
}

function copySources(name: string, target: string): void {
  cpSync(fileURLToPath(new URL(`../sources/${name}`, import.meta.url)), target, { recursive: true });
}

/** @throws LabError when there is no such version. */
async function readUpstreamModule(component: ComponentModule): Promise<GoModule> {
  const { GoMod } = await download(component);
  return JSON.parse(await runGo('/', ['mod', 'edit', '-json', GoMod], component)) as GoModule;
}

/** What `go mod download -json` prints, as far as it matters here. */
interface Downloaded {
  readonly GoMod: string;
  readonly Dir: string;
}

async function download(component: ComponentModule): Promise<Downloaded> {
  const { path, version } = component;
  const words = ['mod', 'download', '-json', `${path}@${version}`];
  return JSON.parse(await runGo('/', words, component)) as Downloaded;
}

async function runGo(
  folder: string,
  words: readonly string[],
  { path, version }: ComponentModule,
): Promise<string> {
  const result = await execa('go', words, {
    cwd: folder,
    env: { CGO_ENABLED: '0', GOFLAGS: '' },
    reject: false,
  });
  if (result.exitCode === 0) return result.stdout;
  if (result.code === 'ENOENT')
    throw new LabError('the lab builds its components with Go, and no go is in PATH');
  const output = `${result.stdout}\n${result.stderr}`;
  // Words of go 1.26 for a version that is not in the module proxy.
  const missing = /[^\s:"]+@v[^\s:"]+(?=: (?:invalid version: unknown|reading \S+: (?:403|404|410)))/.exec(
    output,
  )?.[0];
  if (missing !== undefined) {
    throw new LabError(
      `${path} ${version} cannot be built: the module proxy has no ${missing}. Its versions: go list -m -versions ${missing.replace(/@.*/, '')}`,
    );
  }
  const last = output.trim().split('\n').slice(-5).join('\n');
  throw new LabError(`go ${words[0] ?? ''} of ${path} ${version} failed:\n${last}`);
}
