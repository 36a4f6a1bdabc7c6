import { type Machine, runShell, type CommandResult } from '../../../tools/lab/machines/machine.ts';
import { type BuiltImage, toStorageConfiguration } from '../../support/image/build.ts';

/** In memory of the machine's own. */
const folder = '/var/lib/containers';

/**
 * podman on a machine of namespaces, as a node's container runtime: containers share the machine's network and files, and
 * end with it, without a trace on this machine.
 *
 * The runtime below is crun: runc insists on a control group for each container, which would stay behind wherever the
 * machine is ended without it. Rights, seccomp and mounts are podman's, the same for either.
 */
export class Podman {
  readonly #machine: Machine;

  private constructor(machine: Machine) {
    this.#machine = machine;
  }

  /** Sets it up, with an image that is there already. */
  static async create(machine: Machine, { store }: BuiltImage): Promise<Podman> {
    const places = { folder: `${folder}/storage`, runFolder: '/run/containers', images: store.folder };
    const configuration = toStorageConfiguration({ ...places, driver: store.driver });
    // crun looks for control groups there, also when it shall make none.
    await runShell(
      machine,
      `mount -t cgroup2 none /sys/fs/cgroup
       mkdir ${folder}
       printf '%s' '${configuration}' >${folder}/storage.conf`,
    );
    return new Podman(machine);
  }

  /** Runs a container to its end. */
  async run(flags: readonly string[], image: string, words: readonly string[]): Promise<CommandResult> {
    return await this.#podman(['run', '--rm', ...runtimeFlags, ...flags, image, ...words]);
  }

  /** Starts a container in the background. */
  async start(name: string, flags: readonly string[], image: string, words: readonly string[]) {
    await this.ask(['run', '--detach', '--name', name, ...runtimeFlags, ...flags, image, ...words]);
  }

  async readLog(name: string): Promise<string> {
    const { stdout, stderr } = await this.#podman(['logs', name]);
    return stdout + stderr;
  }

  /** What a command of podman's own prints; rejects when it fails. */
  async ask(words: readonly string[]): Promise<string> {
    const { exitCode, stdout, stderr } = await this.#podman(words);
    if (exitCode !== 0) throw new Error(`podman ${words.join(' ')}: exit status ${exitCode}: ${stderr}`);
    return stdout;
  }

  async #podman(words: readonly string[]): Promise<CommandResult> {
    const environment = { CONTAINERS_STORAGE_CONF: `${folder}/storage.conf` };
    return await this.#machine.run(['podman', '--runtime', 'crun', ...words], { environment });
  }
}

/**
 * No image may come from elsewhere, and nothing of this machine's is used: control groups, journal, systemd's timers. A
 * kubelet runs no health check of the image's either.
 */
const runtimeFlags = [
  ...['--pull', 'never', '--cgroups', 'disabled'],
  ...['--log-driver', 'k8s-file', '--no-healthcheck'],
] as const;
