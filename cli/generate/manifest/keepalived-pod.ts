import { dirname } from 'node:path';
import { toArguments } from '../../../config/arguments.ts';
import { type OptionName } from '../../../config/options.ts';
import { toKeepalivedArguments } from '../keepalived/options.ts';
import { locateKeepalivedFile } from '../../../lib/keepalived/serving-file.ts';
import { escapeVariables, toConfined, toInitContainer, toKeepalivedContainer } from './container.ts';
import { onTheHost } from './pod.ts';
import { type Part, type Manifest } from './yaml.ts';
import { type ManifestRequest } from './request.ts';
import { toStaticPod } from './static-pod.ts';

/**
 * keepalived as a static pod, from one file for all nodes.
 *
 * Goal: the VIP is up before the API is, and stays where it is whatever becomes of the agent.
 * Tension: keepalived.conf is another one on each node (interface, own address, priority), and a static pod can refer
 * to nothing but files of the host.
 * Compromise: an init container of vipnat's image writes it for the node, with the host's network before its eyes, into
 * the folder where the agent says whether this node can serve. Nobody's /etc/keepalived is overwritten.
 */

/** keepalived's files of its own: those that say who it is. */
const pidFolder = '/run/keepalived';

/** What of the configuration keepalived.conf follows from. */
const configNames: readonly OptionName[] = ['vip', 'endpoints', 'runDir'];

/** A pod of keepalived for the kubelet's folder of manifests, the same on every node. */
export function toKeepalivedManifest(request: ManifestRequest): Manifest {
  return toStaticPod('keepalived', request.options.namespace, toSpec(request));
}

function toSpec(request: ManifestRequest): Part {
  const file = locateKeepalivedFile(request.config.runDir);
  const folder = dirname(file);
  return {
    value: {
      ...onTheHost,
      // The VIP is handed over at once.
      terminationGracePeriodSeconds: 10,
      initContainers: [toWriter(request, file)],
      containers: [toKeeper(request, file)],
      volumes: [
        { name: 'keepalived', hostPath: { path: folder, type: 'DirectoryOrCreate' } },
        { name: 'run', emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } },
      ],
    },
    comments: [
      {
        path: ['initContainers', 0],
        text: "It writes this node's keepalived.conf: interface, own address, priority.",
      },
      {
        path: ['containers', 0],
        text: 'keepalived has its own pod, so the VIP does not move when the agent restarts.',
      },
      {
        path: ['volumes', 0],
        text: `keepalived.conf, and the track file: whether this node can serve the VIP`,
      },
      { path: ['volumes', 1], text: "keepalived's process ids" },
    ],
  };
}

/** A node without its interface fails it: the kubelet tries again until the node has one. */
function toWriter(request: ManifestRequest, file: string): object {
  const { config, given, options } = request;
  const names = new Set(configNames.filter((name) => given.has(name)));
  const switches = toKeepalivedArguments({ ...options, output: file });
  return toInitContainer(request, 'configuration', {
    args: ['keepalived', ...toArguments(config, names), ...switches].map(escapeVariables),
    securityContext: toConfined([]),
    volumeMounts: [{ name: 'keepalived', mountPath: dirname(file) }],
  });
}

function toKeeper(request: ManifestRequest, file: string): object {
  const pids = [`--pid=${pidFolder}/keepalived.pid`, `--vrrp_pid=${pidFolder}/vrrp.pid`];
  return toKeepalivedContainer(request, {
    // Images of keepalived start all kinds of scripts.
    command: ['keepalived'],
    args: ['--dont-fork', '--log-console', '--vrrp', `--use-file=${escapeVariables(file)}`, ...pids],
    securityContext: toConfined(['NET_ADMIN', 'NET_BROADCAST', 'NET_RAW']),
    volumeMounts: [
      { name: 'keepalived', mountPath: dirname(file) },
      { name: 'run', mountPath: pidFolder },
    ],
  });
}
