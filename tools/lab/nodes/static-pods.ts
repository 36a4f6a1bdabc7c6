import { type Host, masters, vips, apiserverPort } from '../../../test/support/network/layout.ts';
import type { LabOptions } from '../settings/options.ts';
import { stringify } from 'yaml';
import { vipnatCommand, defaultAgentArguments } from '../components/agent.ts';
import { execa } from 'execa';
import { join } from 'node:path';
import { pkiFolder } from './disk.ts';
import { etcdCommand } from '../components/etcd.ts';
import { locateComponents, locateNodeComponents } from '../build/build.ts';
import { locateCertificates } from '../certificates/certificates.ts';
import { apiserverCommand } from '../components/apiserver.ts';
import { componentFolder } from '../settings/folders.ts';
import { pauseImage } from './images.ts';

/** What a master's control plane is beside the programs that vipnat prints manifests of. */
interface Program {
  readonly name: string;
  readonly command: readonly string[];
  /** Folders of the node that it needs, beside its certificates. */
  readonly folders: Readonly<Record<string, string>>;
  /** For how long the kubelet lets it end by itself; 30 when left out. */
  readonly graceSeconds?: number;
  /** Where it says how it is; nowhere when left out. */
  readonly health?: { readonly host: string; readonly port: number; readonly path: string };
}

/** A master's static pods by their names, as kubeadm and docs/install.md have them; without vipnat where none is to run. */
export async function renderStaticPods(
  master: Host,
  options: LabOptions,
  hasAgents: boolean,
): Promise<Record<string, string>> {
  const programs = [etcd(master, options), apiserver(master, options), ...controllers(options)];
  const printed = await printManifests(options);
  return {
    ...Object.fromEntries(programs.map((program) => [program.name, stringify(renderPod(program))])),
    keepalived: printed.keepalived,
    ...(hasAgents ? { vipnat: printed.vipnat } : {}),
  };
}

async function printManifests(options: LabOptions): Promise<{ keepalived: string; vipnat: string }> {
  const { family } = options;
  const print = async (...words: readonly string[]) => {
    const [program = '', ...more] = vipnatCommand('manifest', ...words);
    return (await execa(program, more)).stdout;
  };
  const peers = masters.map(({ addresses }) => addresses[family]).join(',');
  const agentArguments = options.agentArguments ?? defaultAgentArguments(options);
  const authority = join(pkiFolder, 'ca.crt');
  const [keepalived, vipnat] = await Promise.all([
    print(...['keepalived', '--vip', vips[family], '--peers', peers], ...(options.keepalivedArguments ?? [])),
    print('static-pod', '--vip', vips[family], '--ca-file', authority, ...agentArguments),
  ]);
  return { keepalived, vipnat };
}

function etcd(master: Host, options: LabOptions): Program {
  const { command } = etcdCommand(locateComponents(options.kubernetes).etcd, master, options);
  // Its data outlives the pod, and the power.
  return { name: 'etcd', command, folders: { '/run/etcd': '/var/lib/etcd' } };
}

/** kubeadm leaves it at 0, and doctor warns of that. It has to be longer than the agents take to hear of it, which is a second. */
const usualDelaySeconds = 5;

/**
 * It serves until the kubelet kills it, because controllers keep their watches. After the delay it tells all clients at once to go
 * elsewhere, so nothing is won by the 30 s that kubeadm gives it.
 */
const graceAfterDelaySeconds = 7;

function apiserver(master: Host, options: LabOptions): Program {
  const certificates = locateCertificates(pkiFolder);
  const program = locateComponents(options.kubernetes)['kube-apiserver'];
  const { shutdownDelaySeconds = usualDelaySeconds } = options;
  const { command } = apiserverCommand(program, master, { ...options, shutdownDelaySeconds }, certificates);
  return {
    name: 'kube-apiserver',
    command: [
      ...command,
      '--enable-admission-plugins=NodeRestriction',
      `--kubelet-client-certificate=${certificates.admin.certificate}`,
      `--kubelet-client-key=${certificates.admin.key}`,
      '--kubelet-preferred-address-types=InternalIP',
    ],
    folders: {},
    graceSeconds: shutdownDelaySeconds + graceAfterDelaySeconds,
    health: { host: master.addresses[options.family], port: apiserverPort, path: '/livez' },
  };
}

/** Those that hold leases. */
function controllers({ kubernetes, family }: LabOptions): Program[] {
  const programs = locateNodeComponents(kubernetes);
  const loopback = family === 'ipv6' ? '::1' : '127.0.0.1';
  const common = (name: string) => {
    const kubeconfig = `/etc/kubernetes/${name}.conf`;
    return [
      ...[`--kubeconfig=${kubeconfig}`, `--authentication-kubeconfig=${kubeconfig}`],
      ...[`--authorization-kubeconfig=${kubeconfig}`, `--bind-address=${loopback}`, '--leader-elect=true'],
      '--cert-dir=/run/kube',
    ];
  };
  const key = locateCertificates(pkiFolder).serviceAccountKey;
  const authority = join(pkiFolder, 'ca.crt');
  const manager = 'kube-controller-manager';
  return [
    {
      name: manager,
      command: [
        ...[programs[manager], ...common('controller-manager'), '--use-service-account-credentials=true'],
        ...[`--service-account-private-key-file=${key}`, `--root-ca-file=${authority}`],
        `--client-ca-file=${authority}`,
      ],
      folders: {},
      health: { host: loopback, port: 10257, path: '/healthz' },
    },
    {
      name: 'kube-scheduler',
      command: [programs['kube-scheduler'], ...common('scheduler')],
      folders: {},
      health: { host: loopback, port: 10259, path: '/healthz' },
    },
  ];
}

function renderPod({ name, command, folders, graceSeconds, health }: Program): object {
  const paths = { '/etc/kubernetes': '/etc/kubernetes', [componentFolder]: componentFolder, ...folders };
  const mounts = Object.entries(paths).map(([mountPath, path], index) => ({
    mount: { name: `folder-${index}`, mountPath },
    volume: { name: `folder-${index}`, hostPath: { path, type: 'Directory' } },
  }));
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'kube-system', labels: { component: name, tier: 'control-plane' } },
    spec: {
      hostNetwork: true,
      priorityClassName: 'system-node-critical',
      priority: 2_000_001_000,
      ...(graceSeconds === undefined ? {} : { terminationGracePeriodSeconds: graceSeconds }),
      containers: [
        {
          ...{ name, image: pauseImage, imagePullPolicy: 'IfNotPresent', command },
          ...(health === undefined ? {} : renderProbes(health)),
          resources: { requests: { cpu: '50m' } },
          volumeMounts: mounts.map(({ mount }) => mount),
        },
      ],
      volumes: mounts.map(({ volume }) => volume),
    },
  };
}

/** As kubeadm has them, but that readiness is asked for oftener at the start. */
function renderProbes({ host, port, path }: NonNullable<Program['health']>): object {
  const probe = (at: string) => ({ httpGet: { host, port, path: at, scheme: 'HTTPS' }, timeoutSeconds: 15 });
  return {
    startupProbe: { ...probe(path), periodSeconds: 1, failureThreshold: 240 },
    livenessProbe: { ...probe(path), periodSeconds: 10, failureThreshold: 8 },
    ...(path === '/livez'
      ? { readinessProbe: { ...probe('/readyz'), periodSeconds: 1, failureThreshold: 3 } }
      : {}),
  };
}
