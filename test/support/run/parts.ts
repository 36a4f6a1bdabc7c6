import type { Extent } from '../jest/extent.ts';

/** What the machine has to be or have for a part. A lack of these is nobody's fault: the part is then not run. */
export type MachineNeed = 'go' | 'control groups 1' | 'user-mode Linux';

/** A part of a layer: a folder of tests with a Jest project of the same name, or `lint`. */
export interface Part {
  readonly name: string;
  readonly layer: string;
  /** Whether the gate has it. Parts outside of it need Go, images, virtual machines, or many minutes. */
  readonly isInGate?: true;
  /** Whether its tests run in real time, beside real programs: a failed file of it may run a second time. */
  readonly isRealTime?: true;
  /** Whether it makes network namespaces and writes netfilter rules in them. */
  readonly usesKernel?: true;
  readonly machine?: readonly MachineNeed[];
  /** Programs of Debian packages of the same name, which scripts/setup installs for root. */
  readonly tools?: readonly string[];
  /** Parts of one team run at the same time: one has processors to spare where another waits. */
  readonly team?: string;
  /** How many files run at once; two when left out. Labs are counted by the machine's memory. */
  readonly workers?: number;
}

const kernel = { isRealTime: true, usesKernel: true } as const;
/** What parts have in common that stand on programs built with Go. */
const built = { ...kernel, machine: ['go'] } as const;
const imageTools = ['buildah', 'debootstrap', 'crun', 'podman'];
const nodeNeeds = {
  machine: ['go', 'control groups 1'],
  tools: ['buildah', 'debootstrap', 'containerd', 'runc'],
} as const;

/** In the order in which they run. */
export const parts: readonly Part[] = [
  { name: 'lint', layer: 'lint', isInGate: true },
  { name: 'unit', layer: 'unit', isInGate: true },
  { name: 'repository', layer: 'repository', isInGate: true },
  { name: 'property', layer: 'random', isInGate: true, team: 'memory' },
  { name: 'model', layer: 'random', isInGate: true, team: 'memory' },
  { name: 'fuzz', layer: 'random', isInGate: true, team: 'memory' },
  { name: 'chaos', layer: 'random', ...kernel, isInGate: true },
  { name: 'contract', layer: 'contract', ...kernel, isInGate: true },
  // Its tests wait most of the time: for timeouts, and for what is to happen in real time.
  { name: 'netns', layer: 'host', ...kernel, isInGate: true, team: 'host', workers: 4 },
  // IPVS, which few kernels of test machines have.
  { name: 'vm', layer: 'host', ...kernel, isInGate: true, team: 'host', machine: ['user-mode Linux'] },
  { name: 'load', layer: 'host', ...kernel, isInGate: true, workers: 1 },
  { name: 'release', layer: 'host', ...built, tools: ['buildah', 'debootstrap'] },
  { name: 'control-plane', layer: 'cluster', ...built, team: 'labs' },
  { name: 'migration', layer: 'cluster', ...built, team: 'labs' },
  { name: 'image', layer: 'cluster', ...built, team: 'labs', machine: [], tools: imageTools },
  { name: 'nodes', layer: 'cluster', ...built, team: 'labs', ...nodeNeeds },
  // Its virtual machines keep both processors busy.
  { name: 'ipvs', layer: 'cluster', ...built, machine: ['go', 'user-mode Linux'], workers: 1 },
];

/** Layers in their order, each with what it is for. */
export const layerToPurpose: ReadonlyMap<string, string> = new Map([
  ['setup', 'packages of npm and Debian, and dist/'],
  ['lint', 'types, style, the direction of imports, sizes, prose'],
  ['unit', 'each function and command does what its title says, in memory'],
  ['repository', 'documents, manifests, alerts and packages agree with the code'],
  ['random', 'whatever comes, in whatever order, everything is right in the end'],
  ['contract', 'the kernel in memory behaves as the real one'],
  ['host', 'real packets go where it is said, on one host with real tools'],
  ['components', 'what the layer cluster waited for: built beside the others'],
  ['cluster', 'the whole beside a real control plane, in each mode of kube-proxy'],
]);

/** Files that measure what clients lose run alone, without a Go build beside them. By the end of their paths. */
export const measuringFiles =
  'netns/(services-(storm|upgrades|beside|faults|handover)|sick-restart|crash|flood|forwarding|contested-vip|rewrite)\\.(full|long)\\.test\\.ts$';

/** The parts of a layer, or the part of that name; none for another word. */
export function findParts(word: string): readonly Part[] {
  const ofLayer = parts.filter(({ layer }) => layer === word);
  return ofLayer.length > 0 ? ofLayer : parts.filter(({ name }) => name === word);
}

/** What runs when no part is named. */
export function listParts(extent: Extent): readonly Part[] {
  return extent === 'gate' ? parts.filter(({ isInGate }) => isInGate === true) : parts;
}

/** Whether a part stands on the lab's components, which Go builds. The release only builds its own tools with it. */
export function hasLab({ name, layer }: Part): boolean {
  return layer === 'cluster' && name !== 'image';
}
