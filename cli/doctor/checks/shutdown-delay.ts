import { type Check } from '../facts/check.ts';
import { lookAtHost } from '../facts/fact.ts';
import { filePaths, type HostFacts } from '../facts/host-facts.ts';

/** Whether this node's apiserver says that it goes before it closes its port. */
export const shutdownDelayCheck: Check = {
  code: 'no-shutdown-delay',
  levels: ['warn'],
  meaning: 'The kube-apiserver of this node has no `--shutdown-delay-duration`.',
  find: findAbruptEnd,
};

/** Source: kube-apiserver --help; the listener closes at once when it is 0, while others still send connections. */
function findAbruptEnd({ processes, files }: HostFacts): ReturnType<Check['find']> {
  const manifest = files.get(filePaths.apiserverManifest);
  const text = manifest !== undefined && 'value' in manifest ? manifest.value : null;
  const words = findFlags(processes) ?? text?.split(/[\s"']+/);
  if (words === undefined) {
    if (manifest !== undefined && 'unknown' in manifest) return manifest;
    return { unknown: 'this node shows no kube-apiserver, and no manifest of one' };
  }
  return lookAtHost(() => {
    const delay = findDelay(words);
    if (delay !== null && !/^0(?:ms|s|m|h)?$/.test(delay)) return [];
    return [
      {
        level: 'warn',
        title: `this node's apiserver stops without a delay (shutdown-delay-duration ${delay ?? '0s'})`,
        why: 'At each restart, new connections fail until every agent notices that the apiserver stops. A delay of 10s or more is safe.',
        remedy: describeDelay(text !== null, delay !== null),
      },
    ];
  });
}

/** Those of the running one; a process that has changed its command line tells nothing, nor one that may be another host's. */
function findFlags(processes: HostFacts['processes']): readonly string[] | null {
  if ('unknown' in processes) return null;
  const running = processes.value.find(({ name, isSurelyHere }) => name === 'kube-apiserver' && isSurelyHere);
  return running?.arguments.some((word) => word.startsWith('--')) === true ? running.arguments : null;
}

function describeDelay(hasManifest: boolean, hasFlag: boolean): string[] {
  if (!hasManifest) return ['# start kube-apiserver with --shutdown-delay-duration=10s'];
  const path = filePaths.apiserverManifest;
  const copy = '/etc/kubernetes/kube-apiserver.yaml.new';
  const change = hasFlag
    ? 's/--shutdown-delay-duration=[0-9a-z]*/--shutdown-delay-duration=10s/'
    : String.raw`s/^\( *\)- kube-apiserver$/&\n\1- --shutdown-delay-duration=10s/`;
  return [
    '# the kubelet restarts the apiserver: do one master after the other',
    // The kubelet reads whatever file is in its folder, also a half-written one.
    `cp -p ${path} ${copy} && sed -i '${change}' ${copy} && mv ${copy} ${path}`,
  ];
}

function findDelay(words: readonly string[]): string | null {
  const flag = '--shutdown-delay-duration';
  const index = words.findIndex((word) => word === flag || word.startsWith(`${flag}=`));
  const word = words[index];
  return word === undefined ? null : (word.split('=')[1] ?? words[index + 1] ?? null);
}
