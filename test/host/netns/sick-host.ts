import { fileURLToPath } from 'node:url';
import { vipnatCommand } from '../../support/host/vipnat.ts';
import { prompt } from '../../support/host/keepalived.ts';
import { vips } from '../../support/network/layout.ts';
import { Cluster } from '../../support/network/cluster.ts';
import { TemporaryFolder } from '../../support/network/at-end.ts';
import type { KubeProxyStandIn } from '../../support/kube-proxy/on-host.ts';
import type { CommandResult } from '../../support/network/namespaces.ts';
import { join } from 'node:path';
import { writeFileSync, mkdirSync } from 'node:fs';
import { waitUntil } from '../../support/jest/waiting.ts';
import { startProxies } from './traffic.ts';

/** What `vipnat doctor --json` says of one check. */
export interface Told {
  readonly code: string;
  readonly level: 'ok' | 'warn' | 'fail' | 'skipped';
  readonly title?: string;
  readonly reason?: string;
  readonly remedy?: readonly string[];
}

const programOf = (path: string) => fileURLToPath(new URL(`../../support/${path}`, import.meta.url));
const script = (text: string) => `#!/bin/sh\nset -eu\n${text}\n`;
const node = process.execPath;

/** In here `systemctl`, `kubectl`, `crictl` and `kubeadm` do what a remedy asks of them, and nothing else. */
const tools = {
  vipnat: `exec ${vipnatCommand([]).join(' ')} "$@"`,
  // A unit is a script in units/; it is up when it has printed something, or after a minute.
  systemctl: `verb=$1; shift; [ "$1" != --now ] || shift; unit=\${1%.service}; pid_file=/run/unit-$unit.pid
    if [ "$verb" != start ] && [ -f "$pid_file" ]; then
      pid=$(cat "$pid_file"); rm "$pid_file"; kill "$pid" 2>/dev/null || true
      while readlink "/proc/$pid/exe" >/dev/null 2>&1; do sleep 0.02; done
    fi
    case $verb in start | restart | enable)
      : >"/run/unit-$unit.log"
      setsid "$(dirname "$0")/../units/$unit" >>"/run/unit-$unit.log" 2>&1 </dev/null &
      echo $! >"$pid_file"; tries=0
      while [ ! -s "/run/unit-$unit.log" ] && [ "$tries" -lt 3000 ]; do sleep 0.02; tries=$((tries + 1)); done
    esac`,
  journalctl: 'true',
  // A capture ends with the adverts that it needs, not with its time: so many of a host show who else sends some between them.
  tcpdump: 'exec /usr/bin/tcpdump "$@" -c 12',
  // The kubelet has a pod of kube-proxy made anew, runs the agent of a DaemonSet, and starts a container that was stopped.
  kubectl: `case "$*" in
    *delete*kube-proxy*) rm -f /run/kube-proxy.arguments; systemctl restart kube-proxy ;;
    "apply -f "*)
      awk '/^apiVersion:/ { split($2, parts, "/"); group = parts[2] == "" ? "" : "." parts[1] } /^kind:/ { kind = tolower($2) }
        /^  name:/ && kind { print kind group "/" $2 " created"; kind = "" }' "$3"
      sed -n '/^ *args:/,/^ *env:/s/^ *- //p' "$3" >/run/pod.arguments
      systemctl start pod ;;
    *"rollout status daemonset/vipnat") echo 'daemon set "vipnat" successfully rolled out' ;;
    esac`,
  ctr: 'for archive; do :; done; [ -s "$archive" ]',
  crictl: `case "$*" in
    "ps --name kube-apiserver -q") echo apiserver ;;
    "stop apiserver") systemctl restart kube-apiserver ;;
    esac`,
  // Of its own it knows the node's names; others it is told.
  kubeadm: `names=kubernetes,10.96.0.1,10.77.0.11
    case "$*" in
      "init phase certs apiserver "*)
        [ ! -e /etc/kubernetes/pki/apiserver.crt ]
        for word; do case $word in --apiserver-cert-extra-sans=*) names=$names,\${word#*=}; esac; done ;;
      "certs renew apiserver")
        names=$names,$(openssl x509 -noout -ext subjectAltName -in /etc/kubernetes/pki/apiserver.crt |
          sed -n 's/DNS:\\|IP Address:\\| //gp') ;;
    esac
    issue-certificate "$names" 365`,
  'issue-certificate': `alternatives=$(echo "$1" | tr , '\\n' | sort -u | sed 's/^.*[a-z].*$/DNS:&/; t; s/^/IP:/' | paste -sd,)
    mkdir -p /etc/kubernetes/pki
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=kube-apiserver -days "$2" \\
      -addext "subjectAltName=$alternatives" -out /etc/kubernetes/pki/apiserver.crt -keyout /etc/kubernetes/pki/apiserver.key 2>/dev/null`,
};

const units = {
  keepalived: `exec ${prompt.join(' ')} keepalived --dont-fork --log-console --vrrp --use-file=/etc/keepalived/keepalived.conf --pid=/run/keepalived.pid --vrrp_pid=/run/vrrp.pid`,
  kubelet: 'systemctl start kube-apiserver; echo ready; exec sleep infinity',
  'kube-apiserver': `MANNER=$(cat /run/kube-apiserver.manner 2>/dev/null || echo well) exec ${node} ${programOf('network/apiserver.ts')} m1 6443 /etc/kubernetes/pki/apiserver.crt /etc/kubernetes/pki/apiserver.key`,
  'kube-proxy': `exec ${node} ${programOf('kube-proxy/answers.ts')} $(cat /run/kube-proxy.arguments 2>/dev/null || echo iptables 200)`,
  // The DaemonSet's, with what its manifest has the container do.
  pod: 'exec vipnat $(cat /run/pod.arguments)',
  // As the packages' unit has it, where somebody has written its file.
  vipnat: `if [ -e /etc/vipnat/vipnat.yaml ]; then exec vipnat run --config /etc/vipnat/vipnat.yaml; fi
    exec vipnat run --vip ${vips.ipv4} $(cat /run/vipnat.arguments 2>/dev/null)`,
};

const manifest = `apiVersion: v1
kind: Pod
spec:
  containers:
  - command:
    - kube-apiserver
    - --shutdown-delay-duration=10s
`;

/** A kubeconfig as kubeadm writes them, for this server. */
export const renderKubeconfig = (server: string): string =>
  `apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    server: ${server}\n  name: kubernetes\n`;

/**
 * Master m1 of a miniature cluster with an /etc, a /var/lib and a /run of its own, a real keepalived that holds the VIP, and
 * stand-ins for what kubeadm and systemd look after. Its rules are written; no agent runs.
 */
export class SickHost {
  readonly cluster: Cluster;
  readonly #folder = new TemporaryFolder('doctor');
  #kubeProxy: KubeProxyStandIn | undefined;
  #mounts = 0;

  private constructor(cluster: Cluster) {
    this.cluster = cluster;
  }

  /** A master that is well, or one on which nobody has made a cluster yet: `kubeadm init` does, as createCluster does. */
  static async create(kind: 'well' | 'bare' = 'well'): Promise<SickHost> {
    const host = new SickHost(await Cluster.create());
    try {
      await host.#prepare();
      if (kind === 'well') await host.#makeWell();
    } catch (error) {
      await host.close();
      throw error;
    }
    return host;
  }

  get kubeProxy(): KubeProxyStandIn {
    if (this.#kubeProxy === undefined) throw new Error('the host is not built');
    return this.#kubeProxy;
  }

  /** What doctor tells of a host's checks. */
  async examine(args: readonly string[] = []): Promise<readonly Told[]> {
    const { stdout, stderr } = await this.run(['vipnat', 'doctor', '--json', '--vip', vips.ipv4, ...args]);
    if (stdout === '') throw new Error(`doctor printed nothing: ${stderr}`);
    return (JSON.parse(stdout) as { checks: Told[] }).checks;
  }

  /** Runs a script on m1; rejects when it fails. */
  async shell(text: string): Promise<string> {
    const { exitCode, stdout, stderr } = await this.run(['sh', '-eu', '-s'], text);
    if (exitCode !== 0) throw new Error(`exit status ${exitCode}: ${stderr}\n${text}`);
    return stdout;
  }

  run(command: readonly string[], input = ''): Promise<CommandResult> {
    const environment = { PATH: `${join(this.#folder.path, 'tools')}:${process.env['PATH'] ?? ''}` };
    // Its /run and /var/lib are its own: the usual folders are.
    const usual = ['env', '--unset=VIPNAT_RUN_DIR', '--unset=VIPNAT_STATE_DIR'];
    const enter = ['nsenter', `--target=${this.#mounts}`, '--mount', '--', ...usual, ...command];
    return this.cluster.run('m1', enter, { input, environment });
  }

  /** Starts keepalived on another master with this configuration; answers what ends it. */
  startKeepalived(machine: string, configuration: string): () => void {
    const path = join(this.#folder.path, machine);
    writeFileSync(`${path}.conf`, configuration);
    const child = this.cluster.start(machine, [
      ...[...prompt, 'keepalived', '--dont-fork', '--log-console', '--vrrp', `--use-file=${path}.conf`],
      ...[`--pid=${path}.pid`, `--vrrp_pid=${path}-vrrp.pid`],
    ]);
    return () => child.kill('SIGTERM');
  }

  async waitForVip(): Promise<void> {
    await waitUntil(
      async () => (await this.shell('ip -o addr show dev eth0')).includes(` ${vips.ipv4}/`),
      'm1 does not get the VIP',
    );
  }

  /** What kubeadm does: its files, an apiserver, kube-proxy and its rules. */
  async createCluster(): Promise<void> {
    await this.createApiserver();
    [this.#kubeProxy] = await startProxies(this.cluster, ['m1'], 'nft', ['ipv4']);
    await this.shell('systemctl start kube-proxy');
  }

  async createApiserver(): Promise<void> {
    await this.shell(`mkdir -p /etc/kubernetes/manifests
cat >/etc/kubernetes/manifests/kube-apiserver.yaml <<'END'
${manifest}END
cat >/etc/kubernetes/scheduler.conf <<'END'
${renderKubeconfig('https://10.77.0.11:6443')}END
issue-certificate kubernetes,10.96.0.1,10.77.0.11,${vips.ipv4} 365
systemctl start kube-apiserver`);
  }

  async close(): Promise<void> {
    await this.cluster.close();
    this.#folder.remove();
  }

  async #prepare(): Promise<void> {
    this.#writePrograms('tools', tools);
    this.#writePrograms('units', units);
    const namespace = this.cluster.namespaceOf('m1');
    // Its apiserver is started by createCluster, as one that can be started anew.
    await this.cluster.namespaces.shell(
      namespace,
      `for pid in $(ip netns pids ${namespace}); do [ $pid = $$ ] || kill $pid 2>/dev/null || true; done
       ip addr del ${vips.ipv4}/32 dev eth0`,
    );
    await this.#mountFiles(namespace);
    // keepalived drops a track file whose folder is missing.
    await this.shell(`mkdir -p /etc/keepalived /etc/systemd/system /run/vipnat/keepalived
touch /etc/systemd/system/keepalived.service /etc/systemd/system/kubelet.service /etc/systemd/system/vipnat.service`);
  }

  async #makeWell(): Promise<void> {
    await this.createCluster();
    await this.shell(`vipnat keepalived --vip ${vips.ipv4} --advert 300ms >/etc/keepalived/keepalived.conf
systemctl start keepalived
vipnat run --once --vip ${vips.ipv4}`);
    await this.waitForVip();
  }

  /** A process that holds a mount namespace where what is written to /etc, /root, /run and /var/lib is this host's. */
  async #mountFiles(namespace: string): Promise<void> {
    const { path } = this.#folder;
    const mounts = `for folder in etc root var/lib; do
        mkdir -p ${path}/upper/$folder ${path}/scratch/$folder
        mount -t overlay overlay -o lowerdir=/$folder,upperdir=${path}/upper/$folder,workdir=${path}/scratch/$folder /$folder
      done
      rm -rf /etc/kubernetes /etc/vipnat /etc/keepalived /var/lib/vipnat
      mount -t tmpfs tmpfs /run
      echo mounted
      exec sleep infinity`;
    const child = this.cluster.namespaces.start(namespace, ['unshare', '--mount', 'sh', '-ec', mounts]);
    this.#mounts = child.pid ?? 0;
    await new Promise((resolve, reject) => {
      child.stdout?.once('data', resolve);
      child.once('exit', () => {
        reject(new Error('the host has no files'));
      });
    });
  }

  #writePrograms(folder: string, programs: Readonly<Record<string, string>>): void {
    mkdirSync(join(this.#folder.path, folder));
    for (const [name, text] of Object.entries(programs))
      writeFileSync(join(this.#folder.path, folder, name), script(text), { mode: 0o755 });
  }
}
